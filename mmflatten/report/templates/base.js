'use strict';
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// Theme: that of the system until the button is pressed.
const root = document.documentElement, themeButton = document.getElementById('theme');
const systemDark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (root.style.colorScheme || (systemDark.matches ? 'dark' : 'light')) === 'dark';
const showTheme = () => themeButton.setAttribute('aria-pressed', isDark());
themeButton.addEventListener('click', () => {
  root.style.colorScheme = isDark() ? 'light' : 'dark';
  showTheme();
});
systemDark.addEventListener('change', showTheme);
showTheme();

// Printing opens all details.
let closed = [];
addEventListener('beforeprint', () => {
  closed = $$('details:not([open])');
  closed.forEach(details => { details.open = true; });
});
addEventListener('afterprint', () => closed.forEach(details => { details.open = false; }));
