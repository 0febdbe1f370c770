package redisclient

// SetBusy makes the calls of a client go as they do beside many others.
func SetBusy(c *Client) { c.inFlight.Add(maxUnbatched) }
