/* Process setup shared by the programs. */
#ifndef DOPPLER_BASE_PROGRAM_PROCESS_H
#define DOPPLER_BASE_PROGRAM_PROCESS_H

/* Prepares the process; call once, before starting threads.  Reserves the descriptors of closed standard streams, so that no later file
 * gets them.  Installs a handler that ends the program with status 1 and a line naming the file if a mapped file is truncated or
 * unreadable.  program: static string. */
void dop_process_prepare(const char *program);
const char *dop_process_name(void); /* program name as passed to dop_process_prepare */

#endif
