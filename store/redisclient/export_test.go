package redisclient

// SetBusy makes a client batch its calls, as it does with many concurrent ones.
func SetBusy(c *Client) { c.inFlight.Add(maxUnbatched) }
