-- What every script needs of a group, which is all that is known of one source
-- and object, packed into one value. The rules are those of the Go files of the
-- same names; a change here is one there.
--
-- Times are whole microseconds of Unix time and counts whole numbers, both less
-- than 2^53. '' stands for no key and no name, 0 for no time.

local group_key, due_key = KEYS[1], KEYS[2]
local max, min = math.max, math.min

-- Names in capitals are constants. Before a script is sent to Redis each is
-- replaced by its number: a script defines all its functions in every call, and
-- for a function it is dear to refer to many variables.

-- Bounds of one group, as in bounds.go.
local MAX_RECORDS, MAX_SIMILAR, MAX_BUCKETS, MAX_REASONS, MAX_NAMES = 128, 64, 16, 16, 256
-- How many senders of what must be taken in only once are remembered.
local MAX_SENDERS = 16
local CONFIRM_WITHIN, VISIBILITY = 2000000, 30000000

-- How long a group outlives its last step at least, and, when something is owed,
-- how long a settler may take to come for it.
local SHORTEST_LIFE, OWED_LIFE = 60000000, 86400000000

-- Places in a group. Those from SIMILAR on are lists.
local NEXT_ID, UNTIL, OWING, NAMES, ORIGIN, SIMILAR, BUCKETS, RECORDS, SENDERS = 1, 2, 3, 4, 5, 6, 7, 8, 9

-- Places in a record. All from NAME on are packed into one string, so that a
-- step only unpacks the records that it is about. An open record has false
-- for PACKED.
local KEY, NAME_ID, ID, SEEN, DUE, PACKED = 1, 2, 3, 4, 5, 6
local NAME, REASON, SERIES, AGGREGATE, CONFIRMED = 7, 8, 9, 10, 11
local EXPECTED, SHARE, BEFORE, OWN, TOTAL, WRITTEN = 12, 13, 14, 15, 16, 17
local SAME, LAST_WRITE, FLUSH, WINDOW, AT, TEXT, MESSAGES = 18, 19, 20, 21, 22, 23, 24
local FIRST, REASONS, VERSION, STAMP, CLAIMED = 25, 26, 27, 28, 29
local ADOPTED, UNSURE, WAS = 30, 31, 32

-- What a notice has in place of a NAME_ID. No name has an id so short.
local NOTICE = 'notice'

-- clock is the time of the server, which all replicas share, unless a test says
-- what time it is.
local function clock(given)
  if given ~= 0 then return given end
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- load reads a group or makes an empty one.
local function load(now)
  local packed = redis.call('GET', group_key)
  if packed then
    local g = cmsgpack.unpack(packed)
    if g[OWING] > 0 or now <= g[UNTIL] then return g end
  end
  return {now, 0, 0, '', '', {}, {}, {}, {}}
end

-- save writes a group back, but for one that no write has been about.
local function save(g, now)
  if g[UNTIL] == 0 then return end
  for i = 1, #g[RECORDS] do
    local r = g[RECORDS][i]
    if not r[PACKED] then
      g[RECORDS][i] = {r[KEY], r[NAME_ID], r[ID], r[SEEN], r[DUE], cmsgpack.pack(unpack(r, NAME, WAS))}
    end
  end
  local life = max(g[UNTIL] - now, SHORTEST_LIFE)
  if g[OWING] > 0 then
    life = max(life, OWED_LIFE)
    redis.call('PEXPIRE', due_key, math.ceil(life / 1000))
  end
  redis.call('SET', group_key, cmsgpack.pack(g), 'PX', math.ceil(life / 1000))
end

-- open unpacks the i-th record of a group.
local function open(g, i)
  local r = g[RECORDS][i]
  if r[PACKED] then
    r = {r[KEY], r[NAME_ID], r[ID], r[SEEN], r[DUE], false, cmsgpack.unpack(r[PACKED])}
    g[RECORDS][i] = r
  end
  return r
end

-- find is the first record that has a value in one of the places before PACKED.
local function find(g, place, value)
  if value == '' then return nil end
  local records = g[RECORDS]
  for i = 1, #records do
    if records[i][place] == value then return open(g, i) end
  end
end

-- member is what r is called in the index of all that is due in this slot.
local function member(r)
  return string.format('%s:%.0f', string.match(group_key, '[^:]*$'), r[ID])
end

-- schedule lets r fall due at a time; cancel lets it not fall due at all.
local function schedule(g, r, due)
  if r[DUE] == 0 then g[OWING] = g[OWING] + 1 end
  due = max(due, 1) -- 0 is for not due
  r[DUE] = due
  redis.call('ZADD', due_key, due, member(r))
end

local function cancel(g, r)
  if r[DUE] == 0 then return end
  g[OWING] = g[OWING] - 1
  r[DUE] = 0
  redis.call('ZREM', due_key, member(r))
end
