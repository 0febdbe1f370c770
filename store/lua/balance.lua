-- Keeps what all Events of a group tell equal to what was told, when more than
-- one store was told: legacybalance.go.

-- least is the least that r can tell of: one occurrence when the API server may
-- have it, and what its own CREATE told, which may never come.
local function least(r)
  if r[NAME] == '' or r[REASONS] and not r[CONFIRMED] and r[CLAIMED] == 0 then return 0 end
  return max(1, r[SHARE])
end

-- trim takes from the reason with the most until no more than total are counted.
local function trim(list, total)
  for i = 2, #list, 2 do total = total - list[i] end
  while total < 0 do
    local most = 2
    for i = 2, #list, 2 do
      if list[i] > list[most] then most = i end
    end
    local some = min(-total, list[most])
    list[most] = list[most] - some
    total = total + some
  end
  for i = #list - 1, 1, -2 do
    if list[i + 1] == 0 then
      table.remove(list, i)
      table.remove(list, i)
    end
  end
end

-- again owes all there is to say of r anew. One that is gone is due in a window;
-- a notice of nothing that was never written is none.
local function again(g, r, now)
  if r[REASONS] and r[TOTAL] == 0 then
    remove(g, r)
  elseif r[NAME] ~= '' and r[TOTAL] < 1 then -- it is on its way, and has told nothing yet
    cancel(g, r)
  elseif r[NAME] ~= '' then
    tell_again(g, r)
  elseif r[DUE] == 0 then
    schedule(g, r, now + r[WINDOW])
  end
  if r[REASONS] then trim(r[REASONS], r[TOTAL]) end
end

-- take_from takes n occurrences from those that tell most. What is left then is
-- told twice: no Event can tell of less than one.
local function take_from(g, n)
  while n > 0 do
    local most
    for i = 1, #g[RECORDS] do
      local r = open(g, i)
      if not most or r[TOTAL] - least(r) > most[TOTAL] - least(most) then most = r end
    end
    if not most or most[TOTAL] <= least(most) then return end
    local some = min(n, most[TOTAL] - least(most))
    most[TOTAL] = most[TOTAL] - some
    n = n - some
    again(g, most, 0)
  end
end

-- at_least_one makes an Event that is stored tell of one occurrence at least. When
-- other stores may have told all of its own, one is taken from there.
local function at_least_one(g, r, careful)
  local n = 1 - r[TOTAL]
  r[TOTAL] = max(1, r[TOTAL])
  if n > 0 and careful then take_from(g, n) end
end
