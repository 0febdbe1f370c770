-- The rest of the validating phase: create.go and update.go.

-- vacancy is the key under which an Event can be known that nobody expected.
local function vacancy()
  local key = combined and similar or exact
  local r = find(g, KEY, key)
  return r and r[NAME] ~= '' and not abandoned(r, now) and '' or key
end

-- confirm notes that the write is being stored as it stands.
local function confirm()
  local r = find(g, NAME_ID, name_id) or expect(vacancy(), false)
  if not r then return end
  tell(r, count)
  at_least_one(g, r, careful)
  observe(r)
  r[CONFIRMED], r[SHARE] = true, 0
  wrote(r, count, now)
  r[UNSURE] = careful -- the answer may be lost
  if r[TOTAL] == r[WRITTEN] and r[CLAIMED] == 0 then return cancel(g, r) end
  meet()
  tell_again(g, r)
end

-- refuse notes that the write is not stored after all. What was merged into it
-- in the meantime is dropped with it.
local function refuse()
  local r = find(g, NAME_ID, name_id)
  if not r then return drop() end
  tell(r, count)
  doubt(r)
  remove(g, r)
  remember(g, r[NAME_ID], r[OWN])
  meet()
  lose(g, reason, r[TOTAL] - r[WRITTEN], flush, window, now)
end

if not update then
  if paid then
    confirm()
    return finish('admit', '', 0, 0, 0, '', true)
  end
  refuse()
  return finish('drop', '', 0, next, left, empty, false)
end

-- adopt makes a record for a stored Event that was not known, from what its
-- UPDATE says of it.
local function adopt()
  local r = add(g, '', reason, series)
  if not r then return nil end
  if not find(g, KEY, exact) then r[KEY] = exact end
  r[NAME], r[NAME_ID], r[CONFIRMED] = name, name_id, true
  r[TOTAL], r[WRITTEN], r[OWN] = old_count, old_count, old_count
  if old_overwritten then
    r[TOTAL] = max(1, r[TOTAL] + old_merged)
  else
    r[OWN] = max(0, r[OWN] - old_merged)
  end
  if careful then
    -- What its name told here is not told by the Event too, and a flush interval
    -- passes before the next write, as nobody here knows of the last.
    meet()
    local before = told(g, name_id)
    r[ADOPTED] = r[TOTAL] - r[OWN]
    r[OWN] = max(r[OWN], before)
    r[TOTAL] = r[OWN] - before + r[ADOPTED]
    at_least_one(g, r, true)
    r[LAST_WRITE] = now
  end
  return r
end

local r = find(g, NAME_ID, name_id) or adopt()
if not r then return finish('admit', '', 0, 0, 0, '', false) end -- no room to keep track of it
if recorder and same ~= '' and same == r[SAME] and count == r[WRITTEN] then
  return finish('admit', '', 0, 0, 0, '', false) -- admitted before
end
if not r[CONFIRMED] then -- the API server has it
  r[CONFIRMED], r[SHARE], r[WRITTEN] = true, 0, old_count
  if careful then r[LAST_WRITE] = now end -- another store let it pass, who knows when
end
observe(r)
if not recorder then
  if count ~= old_count then -- one that leaves the count alone is no write of it
    tell(r, count)
    wrote(r, count, now)
    if r[TOTAL] ~= r[WRITTEN] then
      meet()
      change(g, r, now)
    end
  end
  return finish('admit', '', 0, 0, 0, '', false)
end
-- The settler writes it if the Event was written less than a flush interval ago,
-- if something is owed to it anyway, or if the writer does not know of what
-- other names contributed.
if r[DUE] ~= 0 or r[TOTAL] ~= r[OWN] or now - r[LAST_WRITE] < r[FLUSH] or not pays() then
  meet()
  local n = tell(r, count)
  if combined then
    r[AGGREGATE] = true
    note(r, max(n, 1))
  end
  change(g, r, now)
  return finish('merge', r[NAME], r[TOTAL], 0, 0, '', false)
end
r[OWN], r[TOTAL], r[SAME] = count, count, same
wrote(r, count, now)
return finish('admit', '', 0, 0, 0, '', true)
