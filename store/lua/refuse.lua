-- Takes in what a replica refused without asking, for it knew that a bucket was
-- empty: refusals.go. The same refusals may come twice.

local given_now, sender, serial, origin, flush, window, names, more = cmsgpack.unpack(ARGV[1])
local now = clock(given_now)
local g = load(now)
if not is_news(g, sender, serial) then return end
if g[ORIGIN] == '' then g[ORIGIN] = origin end
g[UNTIL] = max(g[UNTIL], now + window)

-- What each name told before is looked up for all before any is remembered: that
-- may push another one out.
local told_now = {}
for i = 1, #names, 3 do
  local id, count, reason = names[i], names[i + 1], names[i + 2]
  local before, lost = told(g, id), 0
  local r = find(g, NAME_ID, id)
  if r then -- it was taken for one on its way: what was merged into it is dropped too
    tell(r, count)
    doubt(r)
    remove(g, r)
    count, lost = r[OWN], r[TOTAL] - r[WRITTEN]
  else
    count, lost = max(before, count), max(0, count - before)
  end
  told_now[i], told_now[i + 1] = id, count
  lose(g, reason, lost, flush, window, now)
end
for i = 1, #names, 3 do remember(g, told_now[i], told_now[i + 1]) end
for i = 1, #more, 2 do lose(g, more[i], more[i + 1], flush, window, now) end
save(g, now)
