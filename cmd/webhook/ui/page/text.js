// All texts of the page, and elements with texts, are made here. Names are as clients wrote them: they become text, never markup.

// visible escapes characters that are invisible or change the order of others: controls, direction marks, invisible letters and
// line breaks. A letter keeps at most two combining marks, as more would overlap the lines above and below.
export function visible(text) {
  return String(text)
    .replace(/[\p{C}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu, character => `\\u{${character.codePointAt(0).toString(16)}}`)
    .replace(/(\p{M}{2})\p{M}+/gu, '$1…');
}

// element makes an element with attributes, except undefined ones, and with children: elements and texts.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.map(child => child instanceof Node ? child : document.createTextNode(visible(child))));
  return made;
}

// name makes an element for a name that others chose, with its own text direction.
export function name(text) {
  return element('bdi', {class: 'name'}, text);
}

// say sets the text of an element. It does not touch an equal text, so that screen readers do not repeat it.
export function say(where, text) {
  const shown = visible(text);
  if (where.textContent !== shown) where.textContent = shown;
}

// show sets the text of an element, or hides the element if the text is empty.
export function show(where, text) {
  say(where, text);
  where.hidden = text === '';
}

const numbers = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const small = new Intl.NumberFormat('en', {maximumFractionDigits: 1, minimumFractionDigits: 1});
const few = new Intl.NumberFormat('en', {notation: 'compact', maximumSignificantDigits: 3});

// count formats a number, with its thousands separated.
export function count(n) {
  return numbers.format(n);
}

// short formats a number in few characters.
export function short(n) {
  return n < 99_950 ? count(n) : few.format(n);
}

// counted formats a number of things.
export function counted(n, one, many) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// rate formats a rate, if it is known.
export function rate(perSecond, known) {
  if (!known) return '–';
  return perSecond > 0 && perSecond < 9.95 ? small.format(perSecond) : short(perSecond);
}

// decided returns the rate of all writes.
export function decided(rates) {
  return rates.admitted + rates.merged + rates.dropped;
}

// clock formats the time of day.
export function clock(at) {
  return new Date(at).toLocaleTimeString('en-GB');
}

// span formats a number of seconds in words.
export function span(seconds) {
  const s = Math.floor(seconds), parts = [[Math.floor(s / 3600), 'h'], [Math.floor(s / 60) % 60, 'min'], [s % 60, 's']];
  return parts.filter(([n]) => n > 0).slice(0, 2).map(([n, unit]) => `${n} ${unit}`).join(' ') || '0 s';
}

// address returns the fragment of the page's address for a place, the same for equal places.
export function address(place) {
  const parts = new URLSearchParams(place);
  parts.sort();
  return `#${parts}`;
}
