#ifndef RB_DL_H
#define RB_DL_H

/* Why rdma-core's libraries could not be loaded; empty where they were. */
const char *rb_dl_error(void);

#endif
