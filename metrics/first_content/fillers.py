"""Words that fill the wait, per language: hesitations, sounds of listening, phrases that ask for time, set openings.

Change a list and change its number. "Yes" and "no" are in none: they answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Fillers:
    """The list of one language. Written in lower case; punctuation, apostrophes and hyphens do not matter.

    name: with its version · sounds: one word each; letters in a row count twice at most ("hmmmm" is "hmm") · phrases:
    fillers wherever they stand · marked: only where a punctuation mark or a pause follows, since the same words may
    begin a sentence of substance ("so far", "right now", "这个问题") · misheard: what recognisers write for a hum, only
    where a pause follows · openings: what is said after them up to the next mark belongs to them ("let me check that
    for you,").
    """

    name: str
    sounds: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    misheard: tuple[str, ...] = ()
    openings: tuple[str, ...] = ()


def _words(*lines: str) -> tuple[str, ...]:
    return tuple(word for line in lines for word in line.split())


_EN: Final = Fillers(
    "fillers-en/1",
    sounds=(
        *("um", "umm", "uhm", "uh", "uhh", "er", "err", "erm", "hm", "hmm", "mm", "mmm", "mhm", "mmhm", "mmhmm"),
        *("uhhuh", "uhuh", "huh", "ah", "ahh", "aha", "oh", "ohh", "ooh", "eh"),
    ),
    phrases=(
        *("one moment", "one moment please", "one second", "one second please", "one sec", "just one moment"),
        *("just one second", "just a moment", "just a moment please", "just a second", "just a sec", "just a minute"),
        *(
            "a moment please",
            "hold on",
            "hold on a second",
            "hang on",
            "hang on a second",
            "please hold",
            "please wait",
        ),
        *("bear with me", "wait a moment", "wait a second"),
    ),
    marked=(
        *("okay", "ok", "okay then", "right", "all right", "alright", "sure", "sure thing", "of course", "certainly"),
        *("absolutely", "no problem", "well", "so", "now", "you know", "i mean", "like", "i see", "i understand"),
        *("got it", "good question", "great question", "that's a good question", "that's a great question"),
        *("thanks for asking", "thank you for asking", "basically", "actually", "anyway"),
    ),
    misheard=("him", "whom", "hum", "hem", "ham", "mom", "m", "em", "her", "moment"),
    openings=(
        *(
            "let me see",
            "let's see",
            "let me think",
            "let me check",
            "let me look",
            "let me have a look",
            "let me find",
        ),
        *("let me take a look", "let me pull up", "i'll check", "i'll look", "i'll have a look", "give me a second"),
        *("give me a moment", "give me a sec", "give me a minute", "give me just a second", "give me just a moment"),
    ),
)
_ZH: Final = Fillers(
    "fillers-zh/1",
    sounds=_words("嗯 呃 唔 啊 哦 噢 喔 哎 诶 欸 唉"),
    phrases=_words(
        "请稍等 請稍等 请稍等一下 請稍等一下 稍等 稍等一下 请您稍等 請您稍等 请等一下 請等一下",
        "等一下 等一等 等等 稍候 请稍候 請稍候",
    ),
    marked=_words(
        "额 額 这个 這個 那个 那個 就是 就是说 就是說 然后 然後 好 好的 好吧 行 那么 那麼",
        "当然 當然 没问题 沒問題 明白 明白了 知道了 了解 我明白了 我知道了 好问题 好問題",
        "这是个好问题 這是個好問題 这是一个好问题 這是一個好問題 怎么说呢 怎麼說呢 是这样 是這樣",
    ),
    openings=_words(
        "让我想 讓我想 让我看 讓我看 让我查 讓我查 我来查 我來查 我来看看 我來看看",
        "我想想 我想一想 我看看 我看一下 我查一下",
    ),
)
_DE: Final = Fillers(
    "fillers-de/1",
    sounds=("äh", "ähh", "ähm", "öh", "öhm", "hm", "hmm", "mm", "mhm", "aha", "ah", "ach", "oh", "eh", "em", "tja"),
    phrases=(
        *("einen moment", "einen moment bitte", "moment", "moment bitte", "moment mal", "einen augenblick"),
        *("einen augenblick bitte", "eine sekunde", "sekunde", "bitte warten", "bitte warten sie"),
    ),
    marked=(
        *("also", "na ja", "naja", "nun", "nun ja", "gut", "okay", "ok", "alles klar", "klar", "natürlich", "gerne"),
        *("sicher", "verstehe", "ich verstehe", "ach so", "gute frage", "das ist eine gute frage", "sozusagen", "so"),
    ),
    openings=(
        *("lass mich überlegen", "lassen sie mich überlegen", "lass mich nachdenken", "lassen sie mich nachdenken"),
        *("lass mich nachsehen", "lassen sie mich nachsehen", "lass mich schauen", "lassen sie mich schauen"),
        *("mal sehen", "mal schauen", "ich schaue", "ich sehe nach"),
    ),
)
_FR: Final = Fillers(
    "fillers-fr/1",
    sounds=("euh", "heu", "hum", "hm", "hmm", "mm", "mhm", "ah", "oh", "eh", "ben", "bah", "hein"),
    phrases=(
        *("un instant", "un instant s'il vous plaît", "un moment", "un moment s'il vous plaît", "une seconde"),
        *("une petite seconde", "attendez", "attends", "veuillez patienter", "ne quittez pas"),
    ),
    marked=(
        *("alors", "bon", "eh bien", "bien", "bien sûr", "d'accord", "ok", "okay", "très bien", "donc", "voilà"),
        *("je vois", "je comprends", "entendu", "bonne question", "c'est une bonne question", "en fait", "enfin"),
    ),
    openings=("laissez-moi", "laisse-moi", "voyons", "voyons voir", "je regarde", "je vérifie", "je vais vérifier"),
)
_ES: Final = Fillers(
    "fillers-es/1",
    sounds=("eh", "ehh", "em", "emm", "hm", "hmm", "mm", "mmm", "mhm", "ah", "ajá", "oh", "uh", "um"),
    phrases=(
        *("un momento", "un momento por favor", "un segundo", "un segundo por favor", "un instante", "espera"),
        *("espere", "espere un momento", "espera un momento", "dame un segundo", "deme un segundo", "deme un momento"),
    ),
    marked=(
        *("este", "bueno", "pues", "bien", "muy bien", "vale", "ok", "okay", "claro", "claro que sí", "por supuesto"),
        *(
            "de acuerdo",
            "entiendo",
            "ya veo",
            "entonces",
            "o sea",
            "buena pregunta",
            "es una buena pregunta",
            "así que",
        ),
    ),
    openings=("déjame", "déjeme", "a ver", "veamos", "vamos a ver", "voy a comprobar", "voy a buscar"),
)
_IT: Final = Fillers(
    "fillers-it/1",
    sounds=("eh", "ehm", "em", "hm", "hmm", "mm", "mhm", "ah", "oh", "uhm", "beh", "mah", "boh"),
    phrases=(
        *("un momento", "un momento per favore", "un attimo", "un attimo per favore", "un secondo", "aspetta"),
        *("aspetti", "aspetti un momento", "aspetta un momento", "dammi un secondo", "mi dia un momento"),
    ),
    marked=(
        *("allora", "dunque", "bene", "va bene", "ok", "okay", "certo", "certamente", "d'accordo", "capisco"),
        *("cioè", "ecco", "insomma", "quindi", "ottima domanda", "buona domanda", "è una buona domanda"),
    ),
    openings=("fammi vedere", "mi faccia vedere", "fammi pensare", "mi faccia pensare", "vediamo", "lasciami"),
)
_PT: Final = Fillers(
    "fillers-pt/1",
    sounds=("hum", "hm", "hmm", "mm", "mhm", "ah", "ahn", "oh", "eh", "uh", "um-hum", "aham"),
    phrases=(
        *("um momento", "um momento por favor", "um segundo", "um instante", "um instante por favor", "espera"),
        *("espere", "espere um momento", "só um momento", "só um segundo", "só um minuto", "aguarde"),
        *("aguarde um momento", "por favor aguarde"),
    ),
    marked=(
        *("bom", "bem", "então", "ok", "okay", "tá", "tá bom", "claro", "com certeza", "certo", "entendo", "entendi"),
        *("pois", "pois é", "tipo", "né", "boa pergunta", "é uma boa pergunta", "muito bem", "tudo bem"),
    ),
    openings=("deixa eu", "deixe-me", "deixa-me", "vamos ver", "vejamos", "vou verificar"),
)
_JA: Final = Fillers(
    "fillers-ja/1",
    sounds=_words("えー えっと えーと えーっと ええと あー あのー うーん んー そのー"),
    phrases=_words(
        "少々お待ちください 少々お待ち下さい 少しお待ちください ちょっと待ってください お待ちください ちょっと待って",
        "そうですね そうですねえ なるほど なるほどですね",
    ),
    marked=_words(
        "あの うん まあ はい ええ では じゃあ それでは 承知しました かしこまりました わかりました 分かりました",
        "いい質問ですね",
    ),
    openings=_words("ちょっと考え 考えさせて 確認し 調べてみ ちょっと調べ"),
)

LISTS: Final = MappingProxyType(
    {"en": _EN, "zh": _ZH, "de": _DE, "fr": _FR, "es": _ES, "it": _IT, "pt": _PT, "ja": _JA}
)
"""By ISO 639-1."""
UNSPACED: Final = frozenset({"zh", "ja"})
"""Written without spaces: compared by characters."""
