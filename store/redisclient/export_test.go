package redisclient

// Crowd makes all calls of a client go as they do beside many others.
func Crowd(c *Client) { c.calling.Add(1 << 20) }

// Alone makes them go as they do when there are few.
func Alone(c *Client) { c.calling.Add(-1 << 20) }
