package ibv

// Index returns the kernel's index of the device, which no other device of this
// boot has ever had; -1 where the kernel does not tell.
//
// Implements: int ibv_get_device_index(struct ibv_device *device)
func (c *Context) Index() int {
	if c.life().enter("device index") != nil {
		return -1
	}
	defer c.node.leave()
	return c.h.Index()
}

// Transport returns the device's protocol family.
func (c *Context) Transport() Transport {
	if c.life().enter("transport") != nil {
		return TransportUnknown
	}
	defer c.node.leave()
	return Transport(c.h.Transport())
}
