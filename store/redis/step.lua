-- Everything that eventquota runs in Redis. ARGV[1] names the operation; each answers the TIME first, in microseconds.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

-- get is the value of a register, '' for none. One that is no string, as another program wrote it, is '?', which nobody can read.
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

-- Of each namespace, one sorted set has its registers, and one its buckets that are counted, by when each expires. These expire with
-- the last of them, or later. places is how many more a set may have than what has not expired of it.
local function places(set, most)
  redis.call('ZREMRANGEBYSCORE', set, '-inf', string.format('%.0f', now))
  return most - redis.call('ZCARD', set)
end

-- keep has a set keep the place of a member until a time, and live for longer than that itself.
local function keep(set, till, member)
  redis.call('ZADD', set, string.format('%.0f', till), member)
  local life = math.ceil((till - now) / 1000)
  if redis.call('PTTL', set) < life then
    redis.call('PEXPIRE', set, 2 * life)
  end
end

-- tokens checks the token buckets under KEYS from the k-th on, of which the set of the namespace is the one before. From ARGV[a] on
-- there are the number of buckets that it may have, and five numbers for each bucket: the time in which one token comes back, the
-- most that may be used, the tokens to take, all or none, the tokens to take in any case, and 1 where it is counted. It returns
-- whether all can be taken, and appends to an answer what is used of each and when: -1 and 0 where there is no place for it. See
-- rules.Level. Times are in microseconds. A value is these two numbers and, of a bucket that is counted, until when its place is
-- kept and the set.
local function tokens(k, a, answer)
  local levels, ok, set, bound, left = {}, true, KEYS[k - 1], tonumber(ARGV[a])
  a = a + 1
  for i = k, #KEYS do
    local used, at, till, by = string.match(get(KEYS[i]), '^(%d+) (%d+) ?(%d*) ?(.*)$')
    used, at = tonumber(used) or 0, tonumber(at) or 0
    if at < now or at - now > 10000000 then
      used, at = math.max(0, used - math.max(0, now - at)), now
    end
    local one, most, need, force = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
    ok = ok and (need == 0 or used + (force + need) * one <= most)
    levels[i] = {math.max(used + need * one, math.min(used + (force + need) * one, most)), at}
    if ARGV[a + 4] == '1' then
      till = by == set and tonumber(till) or tonumber(redis.call('ZSCORE', set, string.sub(KEYS[i], -22)) or 0)
      levels[i][3] = till
      if till <= now then
        left = (left or places(set, bound)) - 1
        if left < 0 then
          ok, used, at = false, -1, 0
        end
      end
    end
    answer[#answer + 1] = used
    answer[#answer + 1] = at
    a = a + 5
  end
  return ok, levels
end

-- take writes the levels that tokens has returned, and puts them into an answer of which they are the last numbers. A place is kept
-- for a quarter longer than its bucket, so that few writes have to say so.
local function take(k, levels, answer)
  local n, set = #answer - 2 * (#KEYS - k + 1), KEYS[k - 1]
  for i = k, #KEYS do
    local used, at, till = levels[i][1], levels[i][2], levels[i][3]
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
-- ARGV expected-version writer value time age expiry(ms) member reserve most-registers place(s) most-buckets bucket-numbers...
--
-- A value is a version of 16 bytes, when something in it is due in 16 digits, 0 for never, '-', and the rest. A reserved
-- one has 'R' for '-', and the writer for which it is reserved in 8 bytes and until when in 16 digits before the rest.
--
-- Where the register has the expected version, '' for none, every bucket has its tokens, the time of the step is not after now nor
-- older than age, the register is not reserved for another, and one that is new has a place (as it always has with most-registers
-- 0), it becomes value, the index follows it, its place is kept until place, or with 0 for as long as before, and the tokens are
-- taken: {now, 1, 0, '', levels}. Otherwise nothing changes, but that
-- the register is reserved for the writer if reserve is above 0 and the version another: {now, 2, held, current, levels} where the
-- version is another, or {now, 0, held, '', levels}. held is 1 where the register is reserved, and 2 where it has no place. An
-- attempt that is sent again finds its own version, or that others have seen it.
if ARGV[1] == 'step' then
  local expected, writer, value, step, age = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
  local expiry, member, reserve = ARGV[7], ARGV[8], tonumber(ARGV[9])
  local current = get(KEYS[2])
  local version = string.sub(current, 1, 16)
  local answer = {now, 0, 0, ''}
  local ok, levels = tokens(5, 12, answer)
  local reserved = string.sub(current, 33, 33) == 'R'
  local held = reserved and string.sub(current, 34, 41) ~= writer and now < (tonumber(string.sub(current, 42, 57)) or 0)
  local most, place = tonumber(ARGV[10]), tonumber(ARGV[11]) * 1000000
  if version == '' and expected == '' and most > 0 and places(KEYS[3], most) <= 0 then
    answer[3] = 2
  elseif version == expected and ok and not held and step <= now and now - step <= age then
    local due = tonumber(string.sub(value, 17, 32))
    if due > 0 then
      redis.call('ZADD', KEYS[1], string.format('%.0f', due), member)
    else
      redis.call('ZREM', KEYS[1], member)
    end
    if place > 0 then
      keep(KEYS[3], place, string.sub(KEYS[2], -22))
    end
    take(5, levels, answer)
    redis.call('SET', KEYS[2], value, 'PX', expiry) -- last: what fails before has changed no count
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

-- take KEYS set-of-buckets bucket... ARGV most-buckets bucket-numbers... takes the tokens, all or none: {now, whether, levels}.
if ARGV[1] == 'take' then
  local answer = {now, 0}
  local ok, levels = tokens(2, 2, answer)
  if ok then
    take(2, levels, answer)
    answer[2] = 1
  end
  return answer
end

-- due KEYS index ARGV after by from n: {now, {member, time, ...}}, a page of the registers that are due from after to by, both
-- added to now.
if ARGV[1] == 'due' then
  local after, by = string.format('%.0f', now + ARGV[2]), string.format('%.0f', now + ARGV[3])
  return {now, redis.call('ZRANGEBYSCORE', KEYS[1], after, by, 'WITHSCORES', 'LIMIT', ARGV[4], ARGV[5])}
end

-- claim KEYS index register... ARGV member...: {now, value, ...}. The index follows what each register says.
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

-- pending KEYS index any...: {now, how many registers are in the index}.
return {now, redis.call('ZCARD', KEYS[1])}
