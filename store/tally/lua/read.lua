-- Answers the time and the ledger, false when there is none. Not TIME and GET,
-- which would be of different moments, and TIME of any server of a Cluster.

return {clock(cmsgpack.unpack(ARGV[1])), redis.call('GET', KEYS[1])}
