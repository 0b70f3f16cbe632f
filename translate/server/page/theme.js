// Runs before the page is drawn, so that it does not flash in the colours of the other theme.
const chosenTheme = localStorage.getItem("theme");
if (chosenTheme) document.documentElement.dataset.theme = chosenTheme;
