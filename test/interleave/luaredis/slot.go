package luaredis

import "strings"

// slots is the number of hash slots of a Redis Cluster.
const slots = 1 << 14

// Slot returns the hash slot of a key, or of its hash tag if it has one.
func Slot(key string) int {
	if _, tail, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(tail, "}"); ok && tag != "" {
			key = tag
		}
	}
	const polynomial = 0x1021 // CRC16, XMODEM
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= polynomial
			}
		}
	}
	return int(crc) % slots
}
