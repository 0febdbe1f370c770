-- The bucket of a quota, from which replicas lease tokens: limit.go and lease.go.
--
-- KEYS[1]  the bucket. A full bucket has no key.
-- ARGV     burst; microseconds in which one token comes back; 1 or 0 tokens
--          needed now, or -n to give back n; tokens wanted in advance; the
--          replica, how many tokens it may have unused, and for how many
--          microseconds it may give back what it gets now; microseconds of Unix
--          time, 0 for the time of the server.
-- Answers  tokens given; microseconds until the next token, 0 when there is one
--          left and -1 for never; microseconds of Unix time.

local burst, every = tonumber(ARGV[1]), tonumber(ARGV[2])
local need, extra = tonumber(ARGV[3]), tonumber(ARGV[4])
local me, held, lease, now = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
if burst <= 0 then return {0, -1, now} end
if every <= 0 then return {math.max(need, 0) + extra, 0, now} end

-- A bucket is the moment at which it is full again and, for each replica, its
-- name, for how much of that its unused tokens stand, and until when it may give
-- them back.
local packed = redis.call('GET', KEYS[1])
local bucket = packed and cmsgpack.unpack(packed) or {0}
local used = math.max(bucket[1] - now, 0)
local full = math.min(burst * every, 2 ^ 52)

-- Had nobody taken the tokens that are unused, the bucket would be fuller, but
-- no fuller than full: what is beyond that cannot be given back any more.
local after, rest, mine, until_ = {0}, used, 0, 0
for i = 2, #bucket, 3 do
  local unused = now < bucket[i + 2] and math.min(bucket[i + 1], rest) or 0
  rest = rest - unused
  if bucket[i] == me then
    mine, until_ = unused, bucket[i + 2]
  elseif unused > 0 then
    after[#after + 1], after[#after + 2], after[#after + 3] = bucket[i], unused, bucket[i + 2]
  end
end

local given = 0
if need < 0 then
  local back = math.min(-need * every, mine)
  used, mine = used - back, mine - back
else
  -- One for each 16 in advance, so that nobody holds what another is refused
  -- for long: the last 15 are given one by one.
  local free = math.floor(math.max(full - used, 0) / every)
  given = math.min(need, free) + math.min(extra, math.floor(free / 16))
  used = used + given * every
  mine = math.min(mine, held * every) + given * every
  if given > 0 then until_ = now + lease end
end
if mine > 0 then
  after[#after + 1], after[#after + 2], after[#after + 3] = me, mine, until_
end

if used > 0 then
  after[1] = now + used
  -- The key must not go too early, and lives for a minute at least.
  redis.call('SET', KEYS[1], cmsgpack.pack(after), 'PX', math.max(math.ceil(used / 1000) + 1, 60000))
elseif packed then
  redis.call('DEL', KEYS[1])
end
return {given, math.max(used + every - full, 0), now}
