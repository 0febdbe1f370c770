-- Takes in what another store told and owes of a group: legacyheir.go and
-- legacyinherit.go. The same legacy may come twice.

local given_now, id, origin, window, events, names = cmsgpack.unpack(ARGV[1])
local now = clock(given_now)
local g = load(now)
if not is_news(g, id, 1) then return end
if g[ORIGIN] == '' then g[ORIGIN] = origin end
g[UNTIL] = max(g[UNTIL], now + window)

-- Places in an event of the legacy.
local E_NAME, E_NAME_ID, E_KEY, E_SINCE, E_OWN, E_BASE, E_ADOPTED = 1, 2, 3, 4, 5, 6, 7
local E_STORED, E_WRITTEN, E_LAST_WRITE, E_SEEN, E_FLUSH, E_WINDOW = 8, 9, 10, 11, 12, 13
local E_REASON, E_SERIES, E_AGGREGATE, E_AT, E_MESSAGES, E_REASONS, E_FIRST = 14, 15, 16, 17, 18, 19, 20

-- by_name finds a stored Event or a notice by its own name.
local function by_name(e)
  if e[E_FIRST] == 0 then return find(g, NAME_ID, e[E_NAME_ID]) end
  for i = 1, #g[RECORDS] do
    if g[RECORDS][i][NAME_ID] == NOTICE and open(g, i)[NAME] == e[E_NAME] then return open(g, i) end
  end
end

-- take makes a record for an Event that is not known here, as an UPDATE would.
local function take(e)
  if e[E_FIRST] == 0 and #g[RECORDS] >= MAX_RECORDS and not forget_oldest(g) then return nil end
  local r = new_record(g, e[E_REASON], e[E_SERIES])
  r[CONFIRMED], r[TOTAL], r[ADOPTED], r[FIRST] = true, e[E_ADOPTED], e[E_ADOPTED], e[E_FIRST]
  if e[E_FIRST] ~= 0 then
    r[NAME], r[NAME_ID], r[REASONS], r[CONFIRMED] = e[E_NAME], NOTICE, {}, e[E_STORED]
  elseif e[E_STORED] then
    r[NAME], r[NAME_ID], r[OWN] = e[E_NAME], e[E_NAME_ID], told(g, e[E_NAME_ID])
  else
    r[SEEN], r[WAS] = now, e[E_NAME_ID]
  end
  return r
end

-- revive finds what waits for another Event in the place of e, which was taken to
-- be gone: the store that says so knew of its CREATE only, and e's store of its
-- arrival.
local function revive(e)
  for i = 1, #g[RECORDS] do
    if g[RECORDS][i][NAME_ID] == '' then
      local r = open(g, i)
      if r[WAS] == e[E_NAME_ID] then
        r[NAME], r[NAME_ID], r[OWN] = e[E_NAME], e[E_NAME_ID], told(g, e[E_NAME_ID])
        r[TOTAL], r[ADOPTED] = r[TOTAL] + e[E_ADOPTED], r[ADOPTED] + e[E_ADOPTED]
        return r
      end
    end
  end
end

-- succeed finds or makes the record that takes over what e tells; the counts
-- follow. It is nil when there is no room.
local function succeed(e)
  local r = by_name(e)
  if not r and not e[E_STORED] and e[E_FIRST] == 0 then
    -- The API server has no such Event: it goes to the one in its place.
    r = find(g, KEY, e[E_KEY])
    if r then
      r[TOTAL] = r[TOTAL] + e[E_ADOPTED]
      return r
    end
  end
  r = r or e[E_STORED] and revive(e) or take(e)
  if not r then return nil end
  if e[E_STORED] and not r[CONFIRMED] then r[CONFIRMED], r[SHARE] = true, 0 end
  if e[E_STORED] and e[E_LAST_WRITE] >= r[LAST_WRITE] then
    r[WRITTEN], r[LAST_WRITE] = e[E_WRITTEN], e[E_LAST_WRITE]
  end
  r[UNSURE] = true
  r[STAMP] = r[STAMP] + 1 -- what a settler says of an earlier claim may not be so any more
  if r[KEY] == '' and e[E_KEY] ~= '' and not find(g, KEY, e[E_KEY]) then r[KEY] = e[E_KEY] end
  r[SEEN] = max(r[SEEN], e[E_SEEN])
  r[FLUSH], r[WINDOW] = e[E_FLUSH], e[E_WINDOW]
  r[AGGREGATE] = r[AGGREGATE] or e[E_AGGREGATE]
  r[AT] = max(r[AT], e[E_AT])
  local list = e[E_MESSAGES]
  local keep = max(#r[MESSAGES], #list) / 2
  for i = #list - 1, 1, -2 do
    hear(r[MESSAGES], list[i], list[i + 1], keep)
    r[TEXT] = list[i]
  end
  return r
end

-- overlap is how much of what other names told in e was taken on faith here when
-- an UPDATE made e known before e was handed over. It is not any more.
local function overlap(r, e)
  local others, adopted = e[E_SINCE] - (e[E_OWN] - e[E_BASE]), r[ADOPTED]
  local n
  if adopted > 0 then
    n = max(0, min(others, adopted, adopted - e[E_ADOPTED]))
  else
    n = min(0, max(others, adopted, adopted - e[E_ADOPTED]))
  end
  r[ADOPTED] = adopted - n
  return n
end

-- twice notes that count occurrences were told under a name, and returns how
-- many more than count less base it would take to be right here: those that had
-- been told here before count twice.
local function twice(is_event, name_id, count, base)
  local r = find(g, NAME_ID, name_id)
  local before
  if not r then
    before = told(g, name_id)
    if max(before, count) > 0 then remember(g, name_id, max(before, count)) end
  elseif r[CONFIRMED] then
    before = r[OWN]
    r[OWN] = max(before, count)
    if not is_event then -- it was refused there, so it may not be stored
      r[UNSURE] = true
      tell_again(g, r)
    end
  else -- it may never come
    before = r[BEFORE]
    r[BEFORE] = max(before, count)
    r[OWN] = max(r[OWN], r[BEFORE])
    r[TOTAL] = r[TOTAL] + r[OWN] - r[BEFORE] - r[SHARE]
    r[SHARE] = r[OWN] - r[BEFORE]
    again(g, r, now)
  end
  return count - base - max(0, count - before)
end

-- give adds n occurrences that e tells to its heir, or to a notice when there is
-- no room for one. It returns what would have to be taken from elsewhere.
local function give(r, e, n)
  if not r then
    lose(g, e[E_REASON], n, e[E_FLUSH], e[E_WINDOW], now)
    return max(0, -n)
  end
  if r[NAME] == e[E_NAME] then n = n - overlap(r, e) end
  r[TOTAL] = r[TOTAL] + n
  if r[REASONS] then
    for i = 1, #e[E_REASONS], 2 do tally(r[REASONS], e[E_REASONS][i], e[E_REASONS][i + 1]) end
  end
  return 0
end

local heirs, excess = {}, 0
for i, e in ipairs(events) do heirs[i] = succeed(e) or false end
for i, e in ipairs(events) do
  excess = excess + give(heirs[i], e, e[E_SINCE] - twice(e[E_NAME] ~= '', e[E_NAME_ID], e[E_OWN], e[E_BASE]))
end
for i = 1, #names, 4 do
  local over, into = twice(false, names[i], names[i + 1], names[i + 2]), names[i + 3]
  if into > 0 and heirs[into] then
    heirs[into][TOTAL] = heirs[into][TOTAL] - over
  else
    excess = excess + over
  end
end
for _, r in ipairs(heirs) do
  if r then
    excess = excess + max(0, least(r) - r[TOTAL])
    r[TOTAL] = max(r[TOTAL], least(r))
  end
end
take_from(g, excess)
for _, r in ipairs(heirs) do
  if r then again(g, r, now) end
end
save(g, now)
