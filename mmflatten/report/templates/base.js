'use strict';
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// Navigation: a link for each section.
const links = document.querySelector('nav ul');
$$('main > section').forEach(section => {
  const link = document.createElement('a');
  link.href = '#' + section.id;
  link.textContent = section.querySelector('h2').textContent;
  links.append(document.createElement('li'));
  links.lastChild.append(link);
});

// Theme: that of the system until the button is pressed.
const root = document.documentElement;
const themeButton = document.getElementById('theme');
const systemDark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (root.style.colorScheme || (systemDark.matches ? 'dark' : 'light')) === 'dark';
function setTheme(name) {
  root.style.colorScheme = name;
  themeButton.setAttribute('aria-pressed', isDark());
}
themeButton.addEventListener('click', () => setTheme(isDark() ? 'light' : 'dark'));
systemDark.addEventListener('change', () => setTheme(root.style.colorScheme));
themeButton.setAttribute('aria-pressed', isDark());

// Printing: light theme, all details open.
let before = null;
addEventListener('beforeprint', () => {
  before = [root.style.colorScheme, $$('details:not([open])')];
  before[1].forEach(details => { details.open = true; });
  setTheme('light');
});
addEventListener('afterprint', () => {
  before[1].forEach(details => { details.open = false; });
  setTheme(before[0]);
});
