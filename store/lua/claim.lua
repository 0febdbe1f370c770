-- Claims debts of one group: the part of Due that is atomic. The arguments are
-- the time and until when debts are to fall due, then the ids of the records.
-- The answer has the group's origin, for how many debts it is worth to look
-- again, how many are claimed, and what each of them says.

local given_now, ahead = cmsgpack.unpack(ARGV[1])
local now = clock(given_now)
local limit = now + ahead
local g = load(now)
local debts, again = {}, 0

for i = 2, #ARGV do
  local r = find(g, ID, tonumber(ARGV[i]))
  if not r or r[DUE] == 0 then
    redis.call('ZREM', due_key, string.format('%s:%s', string.match(group_key, '[^:]*$'), ARGV[i]))
  elseif r[DUE] > limit then -- another settler was faster
    again = again + 1
  elseif r[NAME] == '' then -- gone, and none has followed
    remove(g, r)
    lose(g, r[REASON], r[TOTAL] - r[WRITTEN], r[FLUSH], r[WINDOW], now)
    again = again + 1 -- what has become a notice may be due
  elseif r[CLAIMED] <= now then
    local due = r[DUE]
    r[CLAIMED] = now + VISIBILITY
    schedule(g, r, r[CLAIMED])
    -- Packed at once, as what follows may change it.
    table.insert(debts, cmsgpack.pack(
      r[ID], r[NAME], r[TOTAL], r[TOTAL] - r[OWN], r[SERIES], r[FIRST], r[AT], due, r[TEXT], r[MESSAGES],
      r[REASONS], r[LAST_WRITE] ~= 0, r[VERSION], r[STAMP]))
  else -- a look ahead has met what is claimed
    schedule(g, r, r[CLAIMED])
  end
end
save(g, now)
return cmsgpack.pack(g[ORIGIN], again, #debts) .. table.concat(debts)
