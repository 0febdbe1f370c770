// Every text of the page is made here, and every element with one. Names are as clients wrote them: they become text, never markup.

// visible spells out what could not be seen, or would change the order in which letters are shown: controls, marks of the direction,
// what is invisible, line breaks. A letter keeps two of its marks, as more would run over the lines above and below.
export function visible(text) {
  return String(text)
    .replace(/[\p{C}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu, character => `\\u{${character.codePointAt(0).toString(16)}}`)
    .replace(/(\p{M}{2})\p{M}+/gu, '$1…');
}

// element makes an element with attributes, of which those that are undefined are left out, and children: elements and texts.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.map(child => child instanceof Node ? child : document.createTextNode(visible(child))));
  return made;
}

// name is a name that somebody else chose. Its direction is its own.
export function name(text) {
  return element('bdi', {class: 'name'}, text);
}

// say changes what an element says. What stays the same is left alone, so that nobody hears it twice.
export function say(where, text) {
  const shown = visible(text);
  if (where.textContent !== shown) where.textContent = shown;
}

// show says something in an element, or hides it where there is nothing to say.
export function show(where, text) {
  say(where, text);
  where.hidden = text === '';
}

const numbers = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const small = new Intl.NumberFormat('en', {maximumFractionDigits: 1, minimumFractionDigits: 1});
const few = new Intl.NumberFormat('en', {notation: 'compact', maximumSignificantDigits: 3});

// count is a number with its thousands apart.
export function count(n) {
  return numbers.format(n);
}

// short is a number in few characters.
export function short(n) {
  return n < 99_950 ? count(n) : few.format(n);
}

// counted is a number of things.
export function counted(n, one, many) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// rate is a rate, where there is one.
export function rate(perSecond, known) {
  if (!known) return '–';
  return perSecond > 0 && perSecond < 9.95 ? small.format(perSecond) : short(perSecond);
}

// decided is the rate of all writes.
export function decided(rates) {
  return rates.admitted + rates.merged + rates.dropped;
}

// clock is the time of day.
export function clock(at) {
  return new Date(at).toLocaleTimeString('en-GB');
}

// span is a number of seconds in words.
export function span(seconds) {
  const s = Math.floor(seconds), parts = [[Math.floor(s / 3600), 'h'], [Math.floor(s / 60) % 60, 'min'], [s % 60, 's']];
  return parts.filter(([n]) => n > 0).slice(0, 2).map(([n, unit]) => `${n} ${unit}`).join(' ') || '0 s';
}

// address is the part of the page's address that says what it shows, one for each place.
export function address(place) {
  const parts = new URLSearchParams(place);
  parts.sort();
  return `#${parts}`;
}
