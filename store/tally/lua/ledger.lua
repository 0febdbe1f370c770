-- What every script needs of a ledger: ledger.go and hour.go, rule by rule.
--
-- KEYS[1]  the ledger of one ID, MessagePack, below 32 KB.
-- ARGV[1]  MessagePack; microseconds of Unix time first, 0 for the time of the server.
-- Numbers are whole and at most 2^53, which Lua counts exactly.

local MAX_SLOTS, MAX_SKETCH, MAX_SENDERS = 12, 32, 64
local MAX_SUBJECT_BYTES, SUBJECT_SLACK = 9216, 3072
local SLOT_LENGTH, LIFE_MS, MAX_COUNT = 300000000, 259200000, 4503599627370496

-- Places in a ledger. Slots, senders and subjects are flat lists: five parts for
-- each slot (index, admitted, merged, dropped, the packed sketch), two for each
-- sender (name, seq) and subject (id, text). A sketch is a flat list of id,
-- weight, merged and dropped. Only the current slot's is unpacked.
local SINCE, KNOWN, RESTORED, TOTAL, SLOTS, SUBJECTS, SENDERS = 1, 2, 3, 4, 7, 8, 9

local function limit(n) return math.min(n, MAX_COUNT) end

local function clock(given)
  if given ~= 0 then return given end
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function load(now)
  local packed = redis.call('GET', KEYS[1])
  if packed then return cmsgpack.unpack(packed) end
  return {now, now, false, 0, 0, 0, {}, {}, {}}
end

local function save(l) redis.call('SET', KEYS[1], cmsgpack.pack(l), 'PX', LIFE_MS) end

-- count adds three counts to those from a place on.
local function count(list, place, admitted, merged, dropped)
  list[place] = limit(list[place] + admitted)
  list[place + 1] = limit(list[place + 1] + merged)
  list[place + 2] = limit(list[place + 2] + dropped)
end
