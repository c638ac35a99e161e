#define _GNU_SOURCE
#include "rb_newer.h"

#include <dlfcn.h>
#include <stddef.h>

static void *(*elsewhere)(const char *name);

void *rb_symbol(const char *name)
{
	return elsewhere ? elsewhere(name) : dlsym(RTLD_DEFAULT, name);
}

void rb_symbols_from(void *(*find)(const char *name))
{
	elsewhere = find;
}
