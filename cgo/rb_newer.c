#define _GNU_SOURCE
#include "rb_newer.h"

#include <dlfcn.h>

void *rb_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}
