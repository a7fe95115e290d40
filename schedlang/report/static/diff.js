// Opens the equal lines between two differences.
function startDiffs() {
  document.querySelectorAll('button[data-unfold]').forEach((button) => {
    button.addEventListener('click', () => {
      const fold = button.closest('tbody');
      fold.nextElementSibling.hidden = false;
      fold.remove();
    });
  });
}
