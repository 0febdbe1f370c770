-- Everything that eventquota runs in Redis. It answers TIME first, in microseconds.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

-- A quota: give back some time, and take n tokens, one at most, but for a reserve; see rules.Level.
if ARGV[1] == 'quota' then
  local one, capacity, reserve = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
  local n, back = tonumber(ARGV[5]), tonumber(ARGV[6])
  local used, at = string.match(redis.call('GET', KEYS[1]) or '0 0', '(%d+) (%d+)')
  used, at = tonumber(used), tonumber(at)
  if at < now or at - now > 10000000 then
    used, at = math.max(0, used - math.max(0, now - at)), now
  end
  used = math.max(0, used - back)
  local given = math.max(0, math.min(n, math.floor((capacity - reserve - used) / one)))
  used = used + given * one
  redis.call('SET', KEYS[1], string.format('%.0f %.0f', used, at), 'PX', math.ceil((at - now + used) / 1000) + 1)
  return {now, given, used, at}
end

-- The registers of an index that are due by now plus some time, from one on, some at most, each before its time.
if ARGV[1] == 'due' then
  local by = string.format('%.0f', now + ARGV[2])
  return {now, redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', by, 'WITHSCORES', 'LIMIT', ARGV[3], ARGV[4])}
end

-- A register: KEYS are it and its slot's index, ARGV the expected and the new version, writer, value,
-- time of the step, its greatest age, expiry (ms), index member and its score ('' for none, '-' for
-- unchanged), and for how long to reserve the register if the step is not carried out (us).
local expected, version, writer, value = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local step, age, expiry, member, due, reserve = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], tonumber(ARGV[10])
local v = redis.call('GET', KEYS[1]) or ''
local reserved = string.sub(v, 17, 17) == 'R'
local held = reserved and string.sub(v, 18, 25) ~= writer and now < tonumber(string.sub(v, 26, 41))
if string.sub(v, 1, 16) == expected and not held and tonumber(step) <= now and now - step <= tonumber(age) then
  redis.call('SET', KEYS[1], version .. '-' .. value, 'PX', expiry)
  if due == '' then
    redis.call('ZREM', KEYS[2], member)
  elseif due ~= '-' then
    redis.call('ZADD', KEYS[2], due, member)
  end
  return {now}
end
if reserve > 0 and v ~= '' and not held then
  local rest = string.sub(v, reserved and 42 or 18)
  redis.call('SET', KEYS[1], string.sub(v, 1, 16) .. 'R' .. writer .. string.format('%016.0f', now + reserve) .. rest, 'KEEPTTL')
end
return {now, v, held and 1 or 0}
