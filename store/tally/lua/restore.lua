-- Adds what was counted before the ledger was there, once: restore in ledger.go.

local given_now, since, admitted, merged, dropped = cmsgpack.unpack(ARGV[1])
local l = load(clock(given_now))
if not l[RESTORED] then
  l[RESTORED] = true
  l[SINCE] = math.min(l[SINCE], since)
  count(l, TOTAL, admitted, merged, dropped)
end
save(l)
