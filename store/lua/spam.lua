-- The spam bucket of the write, with its reserves: limit.go and spam.go. One that
-- groups share never runs out here or never has any: redispay.go.

-- grant is the level of a bucket once a token is taken, or nil and the first
-- moment at which there is one, 0 for never.
local function grant(level)
  if burst <= 0 then return nil, 0 end
  if every <= 0 then return level end
  local used = max(level, now) - now
  local free = spam_refill - used
  if free < every then return nil, now + every - free end
  return now + used + every
end

-- Places in a bucket, three of which follow each other in a flat list. Reserves
-- are a flat list of reasons, tokens used and ends.
local BUCKET, LEVEL, RESERVES = 0, 1, 2

-- bucket finds or makes the spam bucket and returns its place. At the bound it
-- takes the place of the fullest, which loses least.
local function bucket()
  local list, fullest = g[BUCKETS], 1
  for i = 1, #list, 3 do
    if list[i] == spam then return i end
    if list[i + LEVEL] < list[fullest + LEVEL] then fullest = i end
  end
  if #list < 3 * MAX_BUCKETS then fullest = #list + 1 end
  list[fullest], list[fullest + LEVEL], list[fullest + RESERVES] = spam, 0, {}
  return fullest
end

-- reserve finds or makes the reserve of the write's reason, renewed when its
-- window has passed. It is nil when other reasons hold all the places.
local function reserve(list)
  local free
  for i = 1, #list, 3 do
    if list[i] == reason_id or not free and now >= list[i + 2] then free = i end
    if list[i] == reason_id then break end
  end
  if not free and #list < 3 * MAX_REASONS then free = #list + 1 end
  if free and (list[free] ~= reason_id or now >= list[free + 2]) then
    list[free], list[free + 1], list[free + 2] = reason_id, 0, now + window
  end
  return free
end

-- closed is for how long a CREATE with the write's reason finds no token and no
-- reserve, -1 for ever. next is when the bucket has a token, 0 for never.
local function closed(list, next)
  local ends = 0
  for i = 1, #list, 3 do
    if list[i] == reason_id then
      ends = list[i + 2]
      break
    end
    if #list >= 3 * MAX_REASONS and (ends == 0 or list[i + 2] < ends) then ends = list[i + 2] end
  end
  if reserve_per_reason <= 0 or ends == 0 then ends = next end
  if next == 0 then next = ends end
  return next == 0 and -1 or min(next, ends) - now
end
