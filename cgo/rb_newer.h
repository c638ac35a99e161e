#ifndef RB_NEWER_H
#define RB_NEWER_H

/* Functions that rdma-core got after version 44 are looked up by name when they
 * are called, so that a program built here runs on an old library and one built
 * with old headers can call a new one. A helper whose function is not there
 * returns RB_NEWER, which no errno is. */
#define RB_NEWER (-100000)

void *rb_symbol(const char *name);

/* Lets find answer instead of the libraries, NULL for what is not there; NULL
 * ends that. For package fakeverbs, whose tests come one after another. */
void rb_symbols_from(void *(*find)(const char *name));

#endif
