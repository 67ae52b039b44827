/* What jobs have written, as JSON: complete, or piece by piece as server-sent events. */
#ifndef DOPPLER_SERVE_API_API_ANSWER_H
#define DOPPLER_SERVE_API_API_ANSWER_H

#include "serve/api/api_internal.h"

/* Appends what is new to the body of the answer, at most some 100 KB.  True: the call is over, and the answer is complete.  Long answers
 * become streams. */
bool dop_call_poll(dop_call *call, dop_answer *io_answer);
/* Ends the call, whatever it was doing.  Accepts NULL. */
void dop_call_end(dop_call *call);

/* api_answer.c: frees what a choice owns, its job aside. */
void dop_choice_finish(dop_choice *choice);

/* api_answer.c: why an answer ended, as OpenAI names it; the error for a job that has not ended well; the counts of an ended call. */
const char *dop_finish_reason(const dop_job_state *state, const json_t *calls);
dop_answer_counts dop_call_count(const dop_call *call);
/* The list of the tokens' log-probabilities of an ended call with `logprobs`, as chat completions have it. */
json_t *dop_call_logprobs(const dop_call *call);

#endif
