-- All operations of eventquota in Redis. ARGV[1] names the operation. Each answer begins with the TIME in microseconds.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

-- get returns the value of a register, and '' if there is none. If another program wrote a value that is no string, it returns '?',
-- which is unreadable.
local function get(key)
  local value = redis.pcall('GET', key) or ''
  if type(value) == 'string' then
    return value
  end
  if string.find(value.err, 'WRONGTYPE', 1, true) then
    return '?'
  end
  return redis.call('GET', key)
end

-- Each namespace has a sorted set of its registers and one of its counted buckets, by expiry. A set expires no earlier than its last
-- member. spare returns how many more members a set may have.
local function spare(set, max)
  redis.call('ZREMRANGEBYSCORE', set, '-inf', string.format('%.0f', now))
  return max - redis.call('ZCARD', set)
end

-- keep counts a member in a set until a time, and keeps the set for longer.
local function keep(set, till, member)
  redis.call('ZADD', set, string.format('%.0f', till), member)
  local life = math.ceil((till - now) / 1000)
  if redis.call('PTTL', set) < life then
    redis.call('PEXPIRE', set, 2 * life)
  end
end

-- tokens checks the token buckets under KEYS from the k-th on; the key before them is the namespace's set of buckets. ARGV[a] is the
-- maximum number of buckets. Five numbers follow for each bucket: the time in which one token refills, the maximum that may be
-- used, the tokens to take (all or none), the tokens to take in any case, and 1 if the bucket is counted. tokens returns whether all
-- can be taken, and appends to an answer the used amount of each bucket and its time, or -1 and 0 if the namespace may have no
-- further bucket. See engine.BucketState. Times are in microseconds. A value has these two numbers. For a counted
-- bucket it also has the time until which it is counted, and the set.
local function tokens(k, a, answer)
  local states, ok, set, max, left = {}, true, KEYS[k - 1], tonumber(ARGV[a])
  a = a + 1
  for i = k, #KEYS do
    local used, at, till, by = string.match(get(KEYS[i]), '^(%d+) (%d+) ?(%d*) ?(.*)$')
    used, at = tonumber(used) or 0, tonumber(at) or 0
    if at < now or at - now > 10000000 then
      used, at = math.max(0, used - math.max(0, now - at)), now
    end
    local one, most, need, force = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
    ok = ok and (need == 0 or used + (force + need) * one <= most)
    states[i] = {math.max(used + need * one, math.min(used + (force + need) * one, most)), at}
    if ARGV[a + 4] == '1' then
      till = by == set and tonumber(till) or tonumber(redis.call('ZSCORE', set, string.sub(KEYS[i], -22)) or 0)
      states[i][3] = till
      if till <= now then
        left = (left or spare(set, max)) - 1
        if left < 0 then
          ok, used, at = false, -1, 0
        end
      end
    end
    answer[#answer + 1] = used
    answer[#answer + 1] = at
    a = a + 5
  end
  return ok, states
end

-- take writes the bucket states that tokens has returned, and puts them into an answer, whose last numbers they are. A bucket is
-- counted for a quarter longer than it exists, so that few writes have to extend that.
local function take(k, states, answer)
  local n, set = #answer - 2 * (#KEYS - k + 1), KEYS[k - 1]
  for i = k, #KEYS do
    local used, at, till = states[i][1], states[i][2], states[i][3]
    local life = math.ceil((at - now + used) / 1000) + 1
    local value = string.format('%.0f %.0f', used, at)
    if till then
      if till < now + life * 1000 then
        till = now + life * 1250
        keep(set, till, string.sub(KEYS[i], -22))
      end
      value = string.format('%s %.0f %s', value, till, set)
    end
    redis.call('SET', KEYS[i], value, 'PX', life)
    answer[n + 1], answer[n + 2] = used, at
    n = n + 2
  end
end

-- step KEYS index register set-of-registers set-of-buckets bucket...
-- ARGV expected-version writer value time age expiry(ms) member reserve max-registers counted-until(s) max-buckets bucket-numbers...
--
-- A value is a version of 16 bytes, the time of the first due write in 16 digits (0 for none), '-', and the rest. A reserved
-- one has 'R' instead of '-'. Before the rest it has the writer that it is reserved for, in 8 bytes, and until when, in 16 digits.
--
-- The step is carried out if
--   the register has the expected version, '' for a new one;
--   every bucket has its tokens;
--   the time of the step is neither after now nor older than age;
--   the register is not reserved for another writer;
--   a new register fits into the namespace, as it always does if max-registers is 0.
-- Then the register becomes value, the index follows, the register is counted until counted-until (0: as before), the tokens are taken, and
-- the answer is {now, 1, 0, '', states}. Otherwise nothing changes, except that on a version conflict the register is reserved for
-- the writer if reserve is above 0. The answer is {now, 2, held, current, states} on a version conflict, and else {now, 0, held, '',
-- states}. held is 1 if the register is reserved for another writer, and 2 if the namespace may have no further register. An attempt
-- that is sent again finds its own version, or finds that later attempts have recorded it.
if ARGV[1] == 'step' then
  local expected, writer, value, step, age = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
  local expiry, member, reserve = ARGV[7], ARGV[8], tonumber(ARGV[9])
  local current = get(KEYS[2])
  local version = string.sub(current, 1, 16)
  local answer = {now, 0, 0, ''}
  local ok, states = tokens(5, 12, answer)
  local reserved = string.sub(current, 33, 33) == 'R'
  local held = reserved and string.sub(current, 34, 41) ~= writer and now < (tonumber(string.sub(current, 42, 57)) or 0)
  local max, counted_until = tonumber(ARGV[10]), tonumber(ARGV[11]) * 1000000
  if version == '' and expected == '' and max > 0 and spare(KEYS[3], max) <= 0 then
    answer[3] = 2
  elseif version == expected and ok and not held and step <= now and now - step <= age then
    local due = tonumber(string.sub(value, 17, 32))
    if due > 0 then
      redis.call('ZADD', KEYS[1], string.format('%.0f', due), member)
    else
      redis.call('ZREM', KEYS[1], member)
    end
    if counted_until > 0 then
      keep(KEYS[3], counted_until, string.sub(KEYS[2], -22))
    end
    take(5, states, answer)
    redis.call('SET', KEYS[2], value, 'PX', expiry) -- last: if a command before it fails, no count has changed
    answer[2] = 1
    return answer
  end
  if held then
    answer[3] = 1
  end
  if version ~= expected then
    answer[2], answer[4] = 2, current
    local readable = reserved or string.sub(current, 33, 33) == '-'
    if reserve > 0 and readable and not held then
      local rest = string.sub(current, reserved and 58 or 34)
      redis.call('SET', KEYS[2], string.sub(current, 1, 32) .. 'R' .. writer .. string.format('%016.0f', now + reserve) .. rest, 'KEEPTTL')
    end
  end
  return answer
end

-- take KEYS set-of-buckets bucket... ARGV max-buckets bucket-numbers... takes all tokens or none: {now, taken, states}.
if ARGV[1] == 'take' then
  local answer = {now, 0}
  local ok, states = tokens(2, 2, answer)
  if ok then
    take(2, states, answer)
    answer[2] = 1
  end
  return answer
end

-- due KEYS index ARGV after by from n: {now, {member, time, ...}}, a page of the registers that are due between now + after and
-- now + by.
if ARGV[1] == 'due' then
  local after, by = string.format('%.0f', now + ARGV[2]), string.format('%.0f', now + ARGV[3])
  return {now, redis.call('ZRANGEBYSCORE', KEYS[1], after, by, 'WITHSCORES', 'LIMIT', ARGV[4], ARGV[5])}
end

-- claim KEYS index register... ARGV member...: {now, value, ...}. It corrects the index by the values.
if ARGV[1] == 'claim' then
  local answer = {now}
  for i = 2, #KEYS do
    local value = get(KEYS[i])
    local due = value == '' and 0 or tonumber(string.match(string.sub(value, 17, 33), '^(%d+)[-R]$'))
    if due == 0 then
      redis.call('ZREM', KEYS[1], ARGV[i])
    elseif due then
      redis.call('ZADD', KEYS[1], string.format('%.0f', due), ARGV[i])
    end
    answer[i] = value
  end
  return answer
end

-- peek KEYS key...: {now, value, ...}.
if ARGV[1] == 'peek' then
  local answer = {now}
  for i = 1, #KEYS do
    answer[i + 1] = get(KEYS[i])
  end
  return answer
end

-- pending KEYS index any...: {now, number of registers in the index}.
return {now, redis.call('ZCARD', KEYS[1])}
