-- The write that is to be decided, and the terms that govern it: Write and Terms
-- in store.go. Update is nil for a CREATE, and so are all after it.

local given_now, origin, exact, similar, message, name, name_id, count, series, at, text, combined, reason, reason_id,
  max_events, window, repeat_window, flush, keep, spam, burst, every, spam_refill, reserve_per_reason, charge_merged, denied, careful,
  update, recorder, old_count, old_merged, old_overwritten, same = cmsgpack.unpack(ARGV[1])

local now = clock(given_now)
local g = load(now)

-- finish writes the group back and answers.
local function finish(...)
  g[UNTIL] = max(g[UNTIL], now + max(window, repeat_window, spam_refill))
  save(g, now)
  return cmsgpack.pack(...)
end

-- meet keeps where the group's Events come from. Only a group of which
-- something was refused needs it.
local function meet()
  if g[ORIGIN] == '' then g[ORIGIN] = origin end
end

-- observe notes one more write about the Event that r stands for.
local function observe(r)
  r[SEEN], r[FLUSH], r[WINDOW], r[AT] = now, flush, window, max(r[AT], at)
end
