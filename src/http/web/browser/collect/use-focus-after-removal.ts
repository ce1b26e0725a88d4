import { useLayoutEffect } from 'preact/hooks';

/**
 * Moves the focus to the section of the focused control if a render of this component removes the control, or to the
 * section before if the whole section is gone. Otherwise the keyboard would start at the top of the page again.
 */
export function useFocusAfterRemoval(): void {
  const focused = document.activeElement;
  const section = focused?.closest('section') ?? null;
  const candidates = [section, section?.previousElementSibling];
  useLayoutEffect(() => {
    const target = candidates.find((candidate) => candidate?.isConnected);
    const isLost = focused?.isConnected === false && document.activeElement === document.body;
    if (isLost && target instanceof HTMLElement) {
      target.tabIndex = -1;
      // The outcome of the action is near the control, and must stay in sight.
      target.focus({ preventScroll: true });
    }
  });
}
