-- The mutating phase of a CREATE: similar.go and merge.go.

-- correlate tells which stored Event the write belongs to and whether that is an
-- aggregate.
local function correlate()
  local list, place, oldest = g[SIMILAR], nil, 1
  for i = 1, #list, 3 do
    if list[i] == similar then
      place = i
      break
    end
    if list[i + 1] < list[oldest + 1] then oldest = i end
  end
  if not place then
    place = #list < 3 * MAX_SIMILAR and #list + 1 or oldest
    list[place], list[place + 1], list[place + 2] = similar, 0, ''
  end
  if now - list[place + 1] > window then list[place + 2] = '' end
  list[place + 1] = now
  -- The messages, of which each is 16 bytes in one string.
  local messages = list[place + 2]
  local kept = #messages / 16
  if kept < max_events then
    for i = 1, #messages, 16 do
      if string.sub(messages, i, i + 15) == message then return exact, false end
    end
  end
  if kept + 1 < max_events then
    list[place + 2] = messages .. message
    return exact, false
  end
  return similar, true
end

-- takes is the stored Event that takes the occurrences of the write, or nil when
-- that is to be stored itself.
local function takes(key)
  if find(g, NAME_ID, name_id) then return nil end -- the API server no longer has it
  local r = find(g, KEY, key)
  if not r or r[NAME] == '' or abandoned(r, now) then return nil end
  if now - r[SEEN] > repeat_window then
    r[KEY] = '' -- what it still owes goes to it by its name
    return nil
  end
  return r
end

local key, aggregate = correlate()
local into = takes(key)
if not into then
  expect(key, aggregate)
  return finish(aggregate and 'aggregate' or 'admit', '', 0, 0, 0, '', false)
end
if charge_merged then
  local i = bucket()
  local after, next = grant(g[BUCKETS][i + LEVEL])
  if not after then
    drop()
    return finish('drop', '', 0, next, 0, 'spam', false)
  end
  g[BUCKETS][i + LEVEL] = after
end
meet()
local n = news()
into[TOTAL] = into[TOTAL] + n
observe(into)
if into[AGGREGATE] then note(into, max(n, 1)) end
change(g, into, now)
return finish('merge', into[NAME], into[TOTAL], 0, 0, '', charge_merged)
