-- Finds what falls due soonest in one slot. The arguments are the time, how far
-- to look ahead, and how much to find at most. The answer is a list of members
-- of the index, each followed by when it falls due.

local t = redis.call('TIME')
local now = tonumber(ARGV[1])
if now == 0 then now = t[1] * 1000000 + t[2] end
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now + ARGV[2]), 'WITHSCORES', 'LIMIT', 0, ARGV[3])
