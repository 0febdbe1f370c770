-- Takes in what a replica adds, once: add in ledger.go.

local given_now, sender, seq, admitted, merged, dropped, offenders = cmsgpack.unpack(ARGV[1])
local now = clock(given_now)
local l = load(now)

local senders = l[SENDERS]
for i = 1, #senders, 2 do
  if senders[i] == sender then
    if seq <= senders[i + 1] then return save(l) end
    table.remove(senders, i)
    table.remove(senders, i)
    break
  end
end
if #senders >= 2 * MAX_SENDERS then
  table.remove(senders, 1)
  table.remove(senders, 1)
end
senders[#senders + 1] = sender
senders[#senders + 1] = seq

count(l, TOTAL, admitted, merged, dropped)

-- The slots that matter, and the current one last.
local slots, old = {}, l[SLOTS]
local index = math.floor(now / SLOT_LENGTH)
local newest = old[#old - 4]
if newest and newest < index + MAX_SLOTS then index = math.max(index, newest) end
for i = 1, #old, 5 do
  if old[i] > index - MAX_SLOTS and old[i] <= index then
    for part = i, i + 4 do slots[#slots + 1] = old[part] end
  end
end
if slots[#slots - 4] ~= index then
  for _, part in ipairs({index, 0, 0, 0, cmsgpack.pack({})}) do slots[#slots + 1] = part end
end
l[SLOTS] = slots
local current = #slots - 4
count(slots, current + 1, admitted, merged, dropped)
if #offenders == 0 then return save(l) end

-- place finds or makes the place of an offender.
local function place(sketch, id)
  local lightest = 1
  for i = 1, #sketch, 4 do
    if sketch[i] == id then return i end
    if sketch[i + 1] < sketch[lightest + 1] then lightest = i end
  end
  local weight = 0
  if #sketch < 4 * MAX_SKETCH then
    lightest = #sketch + 1
  else
    weight = sketch[lightest + 1]
  end
  sketch[lightest], sketch[lightest + 1], sketch[lightest + 2], sketch[lightest + 3] = id, weight, 0, 0
  return lightest
end

-- size is what a subject takes, with its id and what MessagePack adds.
local function size(text) return #text + 12 end

local subjects, named, bytes = l[SUBJECTS], {}, 0
for i = 1, #subjects, 2 do
  named[subjects[i]] = true
  bytes = bytes + size(subjects[i + 1])
end
local sketch = cmsgpack.unpack(slots[current + 4])
for i = 1, #offenders, 4 do
  local id, text = offenders[i], offenders[i + 3]
  local at = place(sketch, id)
  count(sketch, at + 1, limit(offenders[i + 1] + offenders[i + 2]), offenders[i + 1], offenders[i + 2])
  if not named[id] then
    named[id] = true
    subjects[#subjects + 1] = id
    subjects[#subjects + 1] = text
    bytes = bytes + size(text)
  end
end
slots[current + 4] = cmsgpack.pack(sketch)
if bytes <= MAX_SUBJECT_BYTES + SUBJECT_SLACK then return save(l) end

-- Too many subjects: those refused least in the last hour go.
local refused = {}
for i = 1, #slots, 5 do
  local s = cmsgpack.unpack(slots[i + 4])
  for k = 1, #s, 4 do
    local sum = refused[s[k]] or {0, 0}
    sum[1], sum[2] = limit(sum[1] + s[k + 2]), limit(sum[2] + s[k + 3])
    refused[s[k]] = sum
  end
end
local ranks = {}
for i = 1, #subjects, 2 do
  local sum = refused[subjects[i]] or {0, 0}
  ranks[#ranks + 1] = {subjects[i], sum[1] + sum[2], subjects[i + 1], i}
end
table.sort(ranks, function(a, b)
  if a[2] ~= b[2] then return a[2] > b[2] end
  return a[4] > b[4]
end)
subjects, bytes = {}, 0
for i = 1, #ranks do
  bytes = bytes + size(ranks[i][3])
  if bytes > MAX_SUBJECT_BYTES then break end
  subjects[#subjects + 1] = ranks[i][1]
  subjects[#subjects + 1] = ranks[i][3]
end
l[SUBJECTS] = subjects
save(l)
