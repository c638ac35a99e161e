package policy

import "syscall"

const enotuniq = syscall.ENOTUNIQ
