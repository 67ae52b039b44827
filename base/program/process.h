/* Process setup that both programs do first. */
#ifndef DOPPLER_BASE_PROGRAM_PROCESS_H
#define DOPPLER_BASE_PROGRAM_PROCESS_H

/* Opens standard streams that were closed in a way that refuses reading and writing, so that no file that is opened later gets
 * their descriptors.  Afterwards a mapped file that is cut short, or that cannot be read, ends the program with a line that
 * names it and with status 1.  program is static; call once, before threads. */
void dop_process_prepare(const char *program);
const char *dop_process_name(void); /* the name that dop_process_prepare was given */

#endif
