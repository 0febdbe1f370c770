package redisclient

// Crowd makes the calls of a client go as they do beside many others.
func Crowd(c *Client) { c.calling.Add(pooledUpTo) }
