-- Records, the names that were refused, and notices: record.go, group.go and
-- notice.go.

-- is_news tells whether something with a serial came for the first time from a
-- sender, whose serials rise, and remembers it.
local function is_news(g, sender, serial)
  local list = g[SENDERS]
  for i = 1, #list, 2 do
    if list[i] == sender then
      if serial <= list[i + 1] then return false end
      table.remove(list, i)
      table.remove(list, i)
      break
    end
  end
  if #list >= 2 * MAX_SENDERS then
    table.remove(list, 1)
    table.remove(list, 1)
  end
  table.insert(list, sender)
  table.insert(list, serial)
  return true
end

local function remove(g, r)
  cancel(g, r)
  for i = 1, #g[RECORDS] do
    local other = g[RECORDS][i]
    if other == r then return table.remove(g[RECORDS], i) end
  end
end

-- forget_oldest forgets the record that was used longest ago and owes nothing,
-- and tells whether there is one.
local function forget_oldest(g)
  local oldest
  for i = 1, #g[RECORDS] do
    local r = g[RECORDS][i]
    if r[DUE] == 0 and (not oldest or r[SEEN] < g[RECORDS][oldest][SEEN]) then oldest = i end
  end
  return oldest and table.remove(g[RECORDS], oldest)
end

-- new_record makes a record of which nothing is known yet.
local function new_record(g, reason, series)
  g[NEXT_ID] = g[NEXT_ID] + 1
  local r = {
    '', '', g[NEXT_ID], 0, 0, false,  -- KEY to PACKED
    '', reason, series, false, false, -- NAME to CONFIRMED
    0, 0, 0, 0, 0, 0,                 -- EXPECTED to WRITTEN
    '', 0, 0, 0, 0, '', {},           -- SAME to MESSAGES
    0, false, 0, 0, 0, 0, false, '',  -- FIRST to WAS
  }
  table.insert(g[RECORDS], r)
  return r
end

-- add makes a record under a key, without a name, or none when there is no room.
local function add(g, key, reason, series)
  if #g[RECORDS] >= MAX_RECORDS and not forget_oldest(g) then return nil end
  local r = new_record(g, reason, series)
  r[KEY] = key
  return r
end

-- arrival is when an Event that the mutating phase let through must have
-- arrived; 0 once it has.
local function arrival(r)
  return r[CONFIRMED] and 0 or r[EXPECTED] + CONFIRM_WITHIN
end

local function abandoned(r, now)
  return not r[CONFIRMED] and now > arrival(r)
end

local function tell(r, count)
  local n = max(0, count - r[OWN])
  r[OWN], r[TOTAL] = r[OWN] + n, r[TOTAL] + n
  return n
end

local function wrote(r, count, now)
  r[WRITTEN], r[LAST_WRITE], r[STAMP], r[UNSURE] = count, now, r[STAMP] + 1, false
end

-- doubt lets all of r be told anew, as it is gone, if it is not sure that it ever
-- was there.
local function doubt(r)
  if r[UNSURE] then r[WRITTEN] = 0 end
end

-- change owes something new, tell_again all there is to say of r.
local function change(g, r, now)
  r[VERSION] = r[VERSION] + 1
  if r[DUE] ~= 0 then return end
  local from = r[LAST_WRITE] == 0 and now or r[LAST_WRITE]
  schedule(g, r, max(from + r[FLUSH], arrival(r)))
end

local function tell_again(g, r)
  r[VERSION] = r[VERSION] + 1
  schedule(g, r, max(r[LAST_WRITE] + r[FLUSH], arrival(r), r[CLAIMED]))
end

-- The names that were refused are one string with an entry of 24 bytes for each,
-- the oldest first: 16 of the name's id and 8 of the highest count.
local ENTRY = 24

-- told takes a name out of the refused ones and returns its count.
local function told(g, id)
  local names, at = g[NAMES], 0
  repeat
    at = string.find(names, id, at + 1, true)
    if not at then return 0 end
  until at % ENTRY == 1
  g[NAMES] = string.sub(names, 1, at - 1) .. string.sub(names, at + ENTRY)
  return (struct.unpack('>I8', names, at + 16))
end

local function remember(g, id, count)
  local names = g[NAMES]
  if #names >= MAX_NAMES * ENTRY then names = string.sub(names, ENTRY + 1) end
  g[NAMES] = names .. id .. struct.pack('>I8', count)
end

-- take_back undoes what r's own CREATE told, if that never arrived.
local function take_back(r)
  if r[CONFIRMED] or r[NAME] == '' then return end
  r[TOTAL], r[OWN], r[SHARE] = r[TOTAL] - r[SHARE], r[BEFORE], 0
end

-- vacate takes the name from r, whose Event the API server does not have.
local function vacate(g, r)
  take_back(r)
  if r[OWN] > 0 then remember(g, r[NAME_ID], r[OWN]) end
  r[WAS] = r[NAME_ID]
  r[NAME], r[NAME_ID], r[OWN], r[CLAIMED], r[CONFIRMED] = '', '', 0, 0, true
end

-- hear puts a message, n times more, first into a flat list of the newest ones
-- and their counts, of which it keeps so many.
local function hear(list, text, n, keep)
  for i = 1, #list, 2 do
    if list[i] == text then
      n = n + list[i + 1]
      table.remove(list, i)
      table.remove(list, i)
      break
    end
  end
  table.insert(list, 1, text)
  table.insert(list, 2, n)
  while #list > 2 * keep do table.remove(list) end
end

-- tally counts n of what in a flat list of things and their counts.
local function tally(list, what, n)
  for i = 1, #list, 2 do
    if list[i] == what then
      list[i + 1] = list[i + 1] + n
      return
    end
  end
  if #list >= 2 * (MAX_REASONS - 1) and what ~= '' then return tally(list, '', n) end
  table.insert(list, what)
  table.insert(list, n)
end

-- open_notice starts a notice and forgets older ones that owe nothing.
local function open_notice(g, now)
  for i = #g[RECORDS], 1, -1 do
    local r = g[RECORDS][i]
    if r[NAME_ID] == NOTICE and r[DUE] == 0 then table.remove(g[RECORDS], i) end
  end
  local r = new_record(g, '', false)
  r[NAME_ID], r[FIRST], r[REASONS] = NOTICE, now, {}
  r[NAME] = 'eventquota-' .. string.sub(redis.sha1hex(member(r)), 1, 32)
  return r
end

-- lose owes n occurrences of a reason to the notice whose window holds now.
local function lose(g, reason, n, flush, window, now)
  if n <= 0 then return end
  local r
  for i = 1, #g[RECORDS] do
    local other = g[RECORDS][i]
    if other[NAME_ID] == NOTICE then
      r = open(g, i)
      if now - r[FIRST] < r[WINDOW] then break end
      r = nil
    end
  end
  r = r or open_notice(g, now)
  r[FLUSH], r[WINDOW] = flush, window
  r[TOTAL] = r[TOTAL] + n
  r[AT], r[SEEN] = now, now
  tally(r[REASONS], reason, n)
  change(g, r, now)
end
