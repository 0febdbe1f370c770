-- Notes what became of a claimed debt: settle.go.

local given_now, id, name_id, total, version, stamp, outcome = cmsgpack.unpack(ARGV[1])
local now = clock(given_now)
local g = load(now)

-- write_off turns what is owed to an Event that refuses it into a notice.
local function write_off(r)
  local n = max(0, r[TOTAL] - r[WRITTEN])
  r[TOTAL] = r[TOTAL] - n
  wrote(r, r[WRITTEN], now)
  cancel(g, r)
  lose(g, r[REASON], n, r[FLUSH], r[WINDOW], now)
end

-- lose_notice notes that a notice could not be written. One that was there
-- before is created anew; another is let be until there is more to tell.
local function lose_notice(r)
  if outcome == 'gone' and r[LAST_WRITE] ~= 0 then
    r[LAST_WRITE], r[STAMP] = 0, r[STAMP] + 1
    return schedule(g, r, now + r[FLUSH])
  end
  cancel(g, r)
end

local r = find(g, ID, id)
if not r or r[NAME_ID] ~= name_id then
  -- Another Event has taken its place. This one may have arrived late, to be
  -- told a count that is the other's now.
  r = name_id ~= NOTICE and find(g, NAME_ID, name_id)
  if r then tell_again(g, r) end
  return save(g, now)
end
r[CLAIMED] = 0
if r[STAMP] ~= stamp then
  -- Somebody wrote it after the claim, or is about to, so the outcome does not
  -- tell what the API server has now.
  tell_again(g, r)
elseif outcome == 'told' then
  wrote(r, total, now)
  r[CONFIRMED], r[SHARE] = true, 0
  if r[VERSION] == version then
    cancel(g, r)
  else
    schedule(g, r, r[LAST_WRITE] + r[FLUSH])
  end
elseif r[REASONS] then
  lose_notice(r)
elseif outcome == 'gone' then
  -- What is owed waits for the next Event in its place, for a window at the most.
  doubt(r)
  vacate(g, r)
  schedule(g, r, now + r[WINDOW])
else
  write_off(r)
end
save(g, now)
