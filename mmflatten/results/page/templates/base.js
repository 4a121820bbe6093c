'use strict';
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// Printing opens all details.
let closed = [];
addEventListener('beforeprint', () => {
  closed = $$('details:not([open])');
  closed.forEach(details => { details.open = true; });
});
addEventListener('afterprint', () => closed.forEach(details => { details.open = false; }));
