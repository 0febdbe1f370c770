-- Reads a value as it is and changes nothing. The argument is the time, 0 for that
-- of the server. The answer is the time, in microseconds of Unix time, and the
-- value, if there is one.

local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
return {now, redis.call('GET', KEYS[1])}
