-- What a write is told as: record.go, notice.go and create.go.

-- note notes the message of the write in an aggregate, n times more.
local function note(r, n)
  r[TEXT] = text
  hear(r[MESSAGES], text, n, keep)
end

-- news is how many occurrences the write tells of that no write under its name
-- told before.
local function news()
  local before = told(g, name_id)
  remember(g, name_id, max(before, count))
  return max(0, count - before)
end

-- drop owes the occurrences that were not told before to a notice.
local function drop()
  meet()
  lose(g, reason, news(), flush, window, now)
end

-- expect notes that the write is about to be stored. What is owed to an Event
-- that is gone, or that never came to be, is carried over to it.
local function expect(key, aggregate)
  local r = find(g, NAME_ID, name_id) or find(g, KEY, key) or add(g, key, reason, series)
  if not r then return nil end
  if careful then meet() end -- a store that takes this one's place may have to make a notice of it
  take_back(r)
  local before = r[OWN]
  if r[NAME_ID] ~= name_id then
    before = told(g, name_id)
    vacate(g, r)
    r[ADOPTED] = 0 -- by a name that is gone
  end
  r[WRITTEN] = min(r[WRITTEN], r[TOTAL]) -- what it said beyond that was told elsewhere
  if not find(g, KEY, key) then r[KEY] = key end
  r[NAME], r[NAME_ID], r[SERIES], r[REASON] = name, name_id, series, reason
  r[AGGREGATE] = aggregate or combined
  r[CONFIRMED], r[EXPECTED] = false, now
  r[STAMP] = r[STAMP] + 1
  r[BEFORE], r[OWN], r[SHARE] = before, max(before, count), max(0, count - before)
  r[TOTAL] = r[TOTAL] + r[SHARE]
  observe(r)
  if r[AGGREGATE] then note(r, max(r[SHARE], 1)) end
  if r[DUE] ~= 0 then schedule(g, r, max(r[DUE], arrival(r))) end
  return r
end
