#ifndef RB_RESULT_H
#define RB_RESULT_H

#include <errno.h>

/* The three styles of failure, folded into a negative errno: NULL with errno,
 * -1 with errno, and the errno itself as result. */
static inline int rb_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

static inline int rb_ret(int r)
{
	if (r == 0)
		return 0;
	return r > 0 ? -r : rb_errno();
}

#define RB_RESULT(type, call)                              \
	({                                                 \
		struct type r_ = { 0 };                    \
		errno = 0;                                 \
		r_.p = (call);                             \
		r_.err = r_.p ? 0 : rb_errno();            \
		r_;                                        \
	})

#endif
