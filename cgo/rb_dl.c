//go:build rdma_dlopen

#define _GNU_SOURCE
#include "rb_dl.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>

/* Each function of the libraries is defined here and calls the library's own.
 * Hidden, lest the libraries find these in place of their own. (A name in
 * parentheses is no macro's.) */
#define RB_DL(type, missing, name, parameters, arguments)                   \
	static type(*dl_##name) parameters;                                 \
	__attribute__((visibility("hidden"))) type(name) parameters         \
	{                                                                   \
		if (dl_##name)                                              \
			return dl_##name arguments;                         \
		errno = ELIBACC;                                            \
		return missing;                                             \
	}
#include "rb_dl_functions.h"
#undef RB_DL

#define RB_DL(type, missing, name, parameters, arguments) { #name, (void **)&dl_##name },
static const struct {
	const char *name;
	void **at;
} functions[] = {
#include "rb_dl_functions.h"
};
#undef RB_DL

enum { FUNCTIONS = sizeof(functions) / sizeof(*functions) };

static char error[256];

/* Global, so that rb_symbol finds what is looked up by name. librdmacm brings
 * libibverbs, and dlsym looks there, too. */
__attribute__((constructor)) static void load(void)
{
	void *lib = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_GLOBAL);
	int n = 0;

	while (lib && n < FUNCTIONS && (*functions[n].at = dlsym(lib, functions[n].name)))
		n++;
	if (n == FUNCTIONS)
		return;
	snprintf(error, sizeof(error), "%s", dlerror());
	while (n-- > 0) /* all or none */
		*functions[n].at = NULL;
}

const char *rb_dl_error(void)
{
	return error;
}
