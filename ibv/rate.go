package ibv

import "fmt"

// Rate is a static rate in the coding of the verbs, of a path or an address
// handle. RateMax is as fast as the port.
type Rate uint8

// Static rates, in Gbit/s.
const (
	RateMax  Rate = 0
	Rate2_5  Rate = 2
	Rate5    Rate = 5
	Rate10   Rate = 3
	Rate14   Rate = 11
	Rate20   Rate = 6
	Rate25   Rate = 15
	Rate28   Rate = 19
	Rate30   Rate = 4
	Rate40   Rate = 7
	Rate50   Rate = 20
	Rate56   Rate = 12
	Rate60   Rate = 8
	Rate80   Rate = 9
	Rate100  Rate = 16
	Rate112  Rate = 13
	Rate120  Rate = 10
	Rate168  Rate = 14
	Rate200  Rate = 17
	Rate300  Rate = 18
	Rate400  Rate = 21
	Rate600  Rate = 22
	Rate800  Rate = 23
	Rate1200 Rate = 24
)

// rates holds each rate in Mbit/s and as a multiple of 2.5 Gbit/s, 0 for those
// that libibverbs gives no multiple.
var rates = []struct {
	rate Rate
	mbps int
	mult int
}{
	{Rate2_5, 2500, 1}, {Rate5, 5000, 2}, {Rate10, 10000, 4}, {Rate14, 14062, 0}, {Rate20, 20000, 8}, {Rate25, 25781, 0},
	{Rate28, 28125, 11}, {Rate30, 30000, 12}, {Rate40, 40000, 16}, {Rate50, 53125, 20}, {Rate56, 56250, 0},
	{Rate60, 60000, 24}, {Rate80, 80000, 32}, {Rate100, 103125, 0}, {Rate112, 112500, 0}, {Rate120, 120000, 48},
	{Rate168, 168750, 0}, {Rate200, 206250, 0}, {Rate300, 309375, 0}, {Rate400, 425000, 160}, {Rate600, 637500, 240},
	{Rate800, 850000, 320}, {Rate1200, 1275000, 480},
}

// Mbps is the rate in Mbit/s, -1 for RateMax and for a value that codes none.
//
// Implements: int ibv_rate_to_mbps(enum ibv_rate rate)
func (r Rate) Mbps() int {
	for _, e := range rates {
		if e.rate == r {
			return e.mbps
		}
	}
	return -1
}

// Mult is the rate as a multiple of 2.5 Gbit/s, rounded; -1 for RateMax, and for
// rates of 14 Gbit/s a lane, 25, 100, 200 and 300, which have none.
//
// Implements: int ibv_rate_to_mult(enum ibv_rate rate)
func (r Rate) Mult() int {
	for _, e := range rates {
		if e.rate == r && e.mult != 0 {
			return e.mult
		}
	}
	return -1
}

// RateOfMbps is the rate of exactly mbps Mbit/s, RateMax where there is none.
//
// Implements: enum ibv_rate mbps_to_ibv_rate(int mbps)
func RateOfMbps(mbps int) Rate {
	for _, e := range rates {
		if e.mbps == mbps {
			return e.rate
		}
	}
	return RateMax
}

// RateOfMult is the rate of a multiple of 2.5 Gbit/s, RateMax where there is none.
//
// Implements: enum ibv_rate mult_to_ibv_rate(int mult)
func RateOfMult(mult int) Rate {
	for _, e := range rates {
		if e.mult == mult && mult != 0 {
			return e.rate
		}
	}
	return RateMax
}

func (r Rate) String() string {
	if r == RateMax {
		return "max"
	}
	if m := r.Mbps(); m > 0 {
		return fmt.Sprintf("%g Gbit/s", float64(m)/1000)
	}
	return fmt.Sprintf("Rate(%d)", uint8(r))
}

// Width is how many lanes the link has, 0 for a value that codes none.
func (a PortAttr) Width() int {
	switch a.ActiveWidth {
	case 1:
		return 1
	case 2:
		return 4
	case 4:
		return 8
	case 8:
		return 12
	case 16:
		return 2
	}
	return 0
}

// LaneMbps is the speed of one lane in Mbit/s, 0 for a value that codes none.
// The link's speed is Width times that.
func (a PortAttr) LaneMbps() int {
	switch a.ActiveSpeed {
	case 1:
		return 2500
	case 2:
		return 5000
	case 4, 8: // QDR and FDR10
		return 10000
	case 16:
		return 14062
	case 32:
		return 25781
	case 64:
		return 50000
	case 128:
		return 100000
	}
	return 0
}

// UDPSourcePort is the source port of a RoCE v2 packet that carries a flow label.
//
// Implements: uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
func UDPSourcePort(flowLabel uint32) uint16 {
	return uint16(flowLabel&0x3fff ^ flowLabel>>14&0x3f | 0xc000)
}
