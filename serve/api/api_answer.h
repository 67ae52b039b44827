/* Writes the output of jobs as JSON: a whole answer, or a stream of server-sent events. */
#ifndef DOPPLER_SERVE_API_API_ANSWER_H
#define DOPPLER_SERVE_API_API_ANSWER_H

#include "serve/api/api_internal.h"

/* Appends new output to the answer's body, at most about 100 KB. Returns true if the call is over and the answer is
 * complete. Long answers are streamed. */
bool dop_call_poll(dop_call *call, dop_answer *io_answer);
/* Ends the call in any state and cancels its jobs. Accepts NULL. */
void dop_call_end(dop_call *call);

/* Frees the members that a choice owns, except its job. */
void dop_choice_finish(dop_choice *choice);

/* dop_finish_reason: returns OpenAI's finish_reason of an ended job. dop_call_count: returns the token counts of an
 * ended call. */
const char *dop_finish_reason(const dop_job_state *state, const json_t *calls);
dop_answer_counts dop_call_count(const dop_call *call);
/* Returns the token log-probabilities of an ended call with `logprobs`, in the form of chat completions. */
json_t *dop_call_logprobs(const dop_call *call);

#endif
