-- The validating phase begins: tokens.go. Tokens of quotas, which live in other
-- slots, are taken before; denied tells that one was empty. The last part of the
-- answer tells whether tokens were used up.

-- pays takes a token from the spam bucket, unless a quota is empty. An empty
-- spam bucket lets a CREATE through while its reason has a reserve. When it
-- does not pay, it says what was empty, when there is a token, and for how long
-- CREATEs like this one are refused.
local function pays()
  local i = bucket()
  local list = g[BUCKETS][i + RESERVES]
  local after, next = grant(g[BUCKETS][i + LEVEL])
  local kept = not update and reserve_per_reason > 0 and reserve(list)
  local spare = kept and list[kept + 1] < reserve_per_reason
  if not after and not spare then return false, 'spam', next, closed(list, next) end
  if denied then return false, 'quota', 0, 0 end
  g[BUCKETS][i + LEVEL] = after or g[BUCKETS][i + LEVEL]
  if spare then list[kept + 1] = list[kept + 1] + 1 end
  return true
end

-- Most Events are those that the mutating phase expects, with nothing merged into
-- them since. They are confirmed before all that others need is defined.
local paid, empty, next, left
if not update then
  paid, empty, next, left = pays()
  local r = paid and find(g, NAME_ID, name_id)
  if r and r[OWN] == count and r[TOTAL] == count and r[DUE] == 0 and r[CLAIMED] == 0 then
    observe(r)
    r[CONFIRMED], r[SHARE], r[UNSURE] = true, 0, careful
    r[WRITTEN], r[LAST_WRITE], r[STAMP] = count, now, r[STAMP] + 1
    return finish('admit', '', 0, 0, 0, '', true)
  end
end

