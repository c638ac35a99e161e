package ibv

// PKeyIndex finds the row of a port's P_Key table that has key, in host order.
// The error matches ENOENT where none has.
//
// Implements: int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
func (c *Context) PKeyIndex(port uint8, key uint16) (int, error) {
	const op = "find P_Key"
	if err := c.life().enter(op); err != nil {
		return 0, err
	}
	defer c.node.leave()
	i, err := c.h.PKeyIndex(port, key)
	if err != nil {
		return 0, fail(op, c.name, err)
	}
	return i, nil
}

// PKeys reads a port's P_Key table; rows of 0 are empty.
func (c *Context) PKeys(port uint8) ([]uint16, error) {
	a, err := c.QueryPort(port)
	if err != nil {
		return nil, err
	}
	keys := make([]uint16, a.PKeyTableLen)
	for i := range keys {
		if keys[i], err = c.QueryPKey(port, i); err != nil {
			return nil, err
		}
	}
	return keys, nil
}
