/* What both programs do before anything else. */
#ifndef DOPPLER_RUNTIME_CLI_PROCESS_H
#define DOPPLER_RUNTIME_CLI_PROCESS_H

/* Standard streams that were closed get a place that refuses what is asked of them, so that no file that is opened later
 * stands where output goes.  A mapped file that is cut short, or that its disk does not give, ends the program with a line
 * that names it and with status 1.  program is static; called once, before threads. */
void dop_process_prepare(const char *program);

#endif
