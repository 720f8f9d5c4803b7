// Plural forms.

/** `1 message`, `4,211 messages`; the number as it is shown, and as it is. */
export const plural = (shown, number, word) => `${shown} ${word}${number === 1 ? '' : 's'}`;
