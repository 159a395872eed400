"""Vision, audio, multimodal and time series models of transformers, with small configurations."""

from typing import Any

from tools.architectures.architecture import BATCH, Draw

Row = tuple[str, dict[str, Any], dict[str, Any]]

_IMAGE = {"pixel_values": Draw((1, 3, 32, 32))}
_LARGE_IMAGE = {"pixel_values": Draw((1, 3, 64, 64))}
_WAVE = {"input_values": Draw((1, 2000))}
_VIT: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": 32,
    "patch_size": 8,
}
_SWIN: dict[str, Any] = {
    "image_size": 32,
    "embed_dim": 16,
    "depths": [1, 1],
    "num_heads": [2, 4],
    "window_size": 4,
    "patch_size": 2,
}
_WAV2VEC: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "conv_dim": (32, 32, 32),
    "conv_stride": (5, 4, 2),
    "conv_kernel": (10, 4, 2),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
_TEXT: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_IDS = Draw((1, 12), 99)
_BOTH = {"text_config": _TEXT, "vision_config": _VIT, "projection_dim": 32}
_DETECTOR: dict[str, Any] = {
    "use_timm_backbone": False,
    "backbone": None,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "num_queries": 5,
}
_SERIES: dict[str, Any] = {
    "prediction_length": 4,
    "context_length": 16,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "lags_sequence": [1, 2, 3],
    "num_time_features": 1,
}
_PAST = {
    "past_values": Draw((BATCH, 19)),
    "past_time_features": Draw((BATCH, 19, 1)),
    "past_observed_mask": Draw((BATCH, 19), 2),
    "future_values": Draw((BATCH, 4)),
    "future_time_features": Draw((BATCH, 4, 1)),
}

PERCEPTION: dict[str, dict[str, Row]] = {
    "vision transformer": {
        "vit": ("ViTModel", _VIT, _IMAGE),
        "deit": ("DeiTModel", _VIT, _IMAGE),
        "beit": ("BeitModel", _VIT, _IMAGE),
        "vit_msn": ("ViTMSNModel", _VIT, _IMAGE),
        "dinov2": ("Dinov2Model", _VIT, _IMAGE),
        "dinov2_registers": ("Dinov2WithRegistersModel", _VIT, _IMAGE),
        "dinov3_vit": ("DINOv3ViTModel", _VIT, _IMAGE),
        "ijepa": ("IJepaModel", _VIT, _IMAGE),
        "yolos": ("YolosModel", _VIT | {"image_size": [32, 32], "num_detection_tokens": 5}, _IMAGE),
        "swin": ("SwinModel", _SWIN, _IMAGE),
        "swinv2": ("Swinv2Model", _SWIN, _IMAGE),
        "segformer": ("SegformerModel", {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}
                      | {"num_attention_heads": [1, 2, 2, 4]}, _LARGE_IMAGE),
        "pvt": ("PvtModel", {"image_size": 64, "depths": [1, 1, 1, 1]}
                | {"hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 2, 2, 4]},
                _LARGE_IMAGE),
        "glpn": ("GLPNModel", {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}
                 | {"num_attention_heads": [1, 2, 2, 4]}, _LARGE_IMAGE),
        "cvt": ("CvtModel", {"depth": [1, 1, 1]}, _LARGE_IMAGE),
        "hiera": ("HieraModel", {"embed_dim": 16, "image_size": [64, 64], "depths": [1, 1]}
                  | {"num_heads": [1, 2], "query_stride": [2, 2], "num_query_pool": 1}
                  | {"masked_unit_size": [4, 4]}, _LARGE_IMAGE),
        "sam_vision": ("SamVisionModel", _VIT | {"window_size": 2, "global_attn_indexes": [1]}
                       | {"output_channels": 16, "mlp_dim": 128}, _IMAGE),
        "vitdet": ("VitDetModel", _VIT | {"window_size": 2, "window_block_indices": [0]}, _IMAGE),
        "dpt": ("DPTForDepthEstimation", _VIT | {"num_hidden_layers": 4}
                | {"backbone_out_indices": [0, 1, 2, 3]}
                | {"neck_hidden_sizes": [16, 16, 16, 16], "fusion_hidden_size": 16}, _IMAGE),
        "imagegpt": ("ImageGPTModel", {"vocab_size": 33, "n_positions": 64, "n_embd": 32}
                     | {"n_layer": 2, "n_head": 4}, {"input_ids": Draw((1, 16), 32)}),
        "detr_decoder": ("DetrForObjectDetection", _DETECTOR | {"backbone_config": None},
                         _LARGE_IMAGE),
    },
    "video": {
        "videomae": ("VideoMAEModel", _VIT | {"num_frames": 4},
                     {"pixel_values": Draw((1, 4, 3, 32, 32))}),
        "timesformer": ("TimesformerModel", _VIT | {"num_frames": 4},
                        {"pixel_values": Draw((1, 4, 3, 32, 32))}),
        "vivit": ("VivitModel", _VIT | {"num_frames": 4, "tubelet_size": [2, 8, 8]},
                  {"pixel_values": Draw((1, 4, 3, 32, 32))}),
        "vjepa2": ("VJEPA2Model", _VIT | {"crop_size": 32, "frames_per_clip": 4}
                   | {"pred_hidden_size": 32, "pred_num_attention_heads": 4}
                   | {"pred_num_hidden_layers": 1, "pred_num_mask_tokens": 2},
                   {"pixel_values_videos": Draw((1, 4, 3, 32, 32))}),
    },
    "convolutional": {
        "convnext": ("ConvNextModel", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]},
                     _LARGE_IMAGE),
        "convnextv2": ("ConvNextV2Model", {"hidden_sizes": [8, 16, 24, 32]}
                       | {"depths": [1, 1, 1, 1]}, _LARGE_IMAGE),
        "resnet": ("ResNetModel", {"embedding_size": 16, "hidden_sizes": [16, 32]}
                   | {"depths": [1, 1]}, _LARGE_IMAGE),
        "regnet": ("RegNetModel", {"embedding_size": 16, "hidden_sizes": [16, 32]}
                   | {"depths": [1, 1], "groups_width": 8}, _LARGE_IMAGE),
        "bit": ("BitModel", {"embedding_size": 32, "hidden_sizes": [32, 64], "depths": [1, 1]}
                | {"num_groups": 8}, _LARGE_IMAGE),
        "mobilenet_v1": ("MobileNetV1Model", {"depth_multiplier": 0.25}, _LARGE_IMAGE),
        "mobilenet_v2": ("MobileNetV2Model", {"depth_multiplier": 0.25}, _LARGE_IMAGE),
        "poolformer": ("PoolFormerModel", {"hidden_sizes": [8, 16, 24, 32]}
                       | {"depths": [1, 1, 1, 1]}, _LARGE_IMAGE),
        "textnet": ("TextNetModel", {}, _LARGE_IMAGE),
    },
    "hybrid": {
        "mobilevit": ("MobileViTModel", {"hidden_sizes": [16, 24, 32], "image_size": 64}
                      | {"neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 48]}, _LARGE_IMAGE),
        "mobilevitv2": ("MobileViTV2Model", {"width_multiplier": 0.25, "image_size": 64},
                        _LARGE_IMAGE),
        "levit": ("LevitModel", {"image_size": 64, "hidden_sizes": [16, 32, 48]}
                  | {"num_attention_heads": [2, 2, 2], "depths": [1, 1, 1], "key_dim": [8, 8, 8]},
                  _LARGE_IMAGE),
        "focalnet": ("FocalNetModel", {"embed_dim": 16, "image_size": 32, "depths": [1, 1]}
                     | {"focal_levels": [1, 1], "focal_windows": [3, 3]}, _IMAGE),
        "swiftformer": ("SwiftFormerModel", {"embed_dims": [8, 16, 24, 32]}
                        | {"depths": [1, 1, 1, 1]}, _LARGE_IMAGE),
    },
    "audio": {
        "wav2vec2": ("Wav2Vec2Model", _WAV2VEC, _WAVE),
        "wavlm": ("WavLMModel", _WAV2VEC, _WAVE),
        "hubert": ("HubertModel", _WAV2VEC, _WAVE),
        "unispeech": ("UniSpeechModel", _WAV2VEC, _WAVE),
        "unispeech_sat": ("UniSpeechSatModel", _WAV2VEC, _WAVE),
        "sew": ("SEWModel", _WAV2VEC | {"squeeze_factor": 2}, _WAVE),
        "data2vec_audio": ("Data2VecAudioModel", _WAV2VEC
                           | {"num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 3}, _WAVE),
        "wav2vec2_conformer": ("Wav2Vec2ConformerModel", _WAV2VEC, _WAVE),
        "wav2vec2_bert": ("Wav2Vec2BertModel", _TEXT | {"feature_projection_input_dim": 16},
                          {"input_features": Draw((1, 40, 16))}),
        "ast": ("ASTModel", _TEXT | {"max_length": 32, "num_mel_bins": 16, "patch_size": 8}
                | {"time_stride": 8, "frequency_stride": 8}, {"input_values": Draw((1, 32, 16))}),
        "whisper": ("WhisperForConditionalGeneration", {
            "vocab_size": 99, "num_mel_bins": 16, "d_model": 64, "encoder_layers": 2,
            "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
            "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "max_source_positions": 20,
            "max_target_positions": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
            "decoder_start_token_id": 1,
        }, {"input_features": Draw((1, 16, 40)), "decoder_input_ids": Draw((1, 5), 99)}),
        "speech_to_text": ("Speech2TextForConditionalGeneration", {
            "vocab_size": 99, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
            "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128,
            "decoder_ffn_dim": 128, "max_source_positions": 64, "max_target_positions": 32,
            "input_feat_per_channel": 16, "conv_channels": 32, "pad_token_id": 0,
            "bos_token_id": 1, "eos_token_id": 2,
        }, {"input_features": Draw((1, 40, 16)), "decoder_input_ids": Draw((1, 5), 99)}),
        "encodec": ("EncodecModel", {"hidden_size": 16, "num_filters": 4, "codebook_size": 32}
                    | {"codebook_dim": 16, "upsampling_ratios": [4, 2]},
                    {"input_values": Draw((1, 1, 640))}),
        "dac": ("DacModel", {"encoder_hidden_size": 8, "downsampling_ratios": [2, 4]}
                | {"decoder_hidden_size": 16, "upsampling_ratios": [4, 2], "n_codebooks": 2}
                | {"codebook_size": 32, "codebook_dim": 4, "hidden_size": 32},
                {"input_values": Draw((1, 1, 640))}),
        "musicgen": ("MusicgenForCausalLM", {
            "vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "ffn_dim": 128, "max_position_embeddings": 64, "num_codebooks": 2,
        }, {"input_ids": Draw((2, 12), 99)}),
    },
    "multimodal": {
        "clip": ("CLIPModel", _BOTH, _IMAGE | {"input_ids": _IDS}),
        "clip_text": ("CLIPTextModel", _TEXT, {"input_ids": _IDS}),
        "clip_vision": ("CLIPVisionModel", _VIT, _IMAGE),
        "siglip": ("SiglipModel", {"text_config": _TEXT | {"projection_size": 64}}
                   | {"vision_config": _VIT}, _IMAGE | {"input_ids": _IDS}),
        "chinese_clip": ("ChineseCLIPModel", _BOTH, _IMAGE | {"input_ids": _IDS}),
        "altclip_text": ("AltCLIPTextModel", _TEXT | {"project_dim": 32}, {"input_ids": _IDS}),
        "blip": ("BlipModel", _BOTH, _IMAGE | {"input_ids": _IDS}),
        "blip_vision": ("BlipVisionModel", _VIT, _IMAGE),
        "owlvit_vision": ("OwlViTVisionModel", _VIT, _IMAGE),
        "x_clip_text": ("XCLIPTextModel", _TEXT, {"input_ids": _IDS}),
        "groupvit_text": ("GroupViTTextModel", _TEXT, {"input_ids": _IDS}),
        "align_text": ("AlignTextModel", _TEXT, {"input_ids": _IDS}),
        "vilt": ("ViltModel", _TEXT | _VIT, _IMAGE | {"input_ids": _IDS}),
        "git": ("GitForCausalLM", _TEXT | {"vision_config": _VIT}, _IMAGE | {"input_ids": _IDS}),
        "llava": ("LlavaForConditionalGeneration", {
            "text_config": _TEXT | {"model_type": "llama"}, "image_token_index": 98,
            "vision_config": _VIT | {"model_type": "clip_vision_model"},
            "vision_feature_layer": -1,
        }, {"input_ids": Draw((1, 12), 97)}),
        "visual_bert": ("VisualBertModel", _TEXT | {"visual_embedding_dim": 16},
                        {"input_ids": _IDS, "visual_embeds": Draw((1, 4, 16))}),
        "lxmert": ("LxmertModel", _TEXT | {"visual_feat_dim": 16, "l_layers": 1, "x_layers": 1}
                   | {"r_layers": 1},
                   {"input_ids": _IDS, "visual_feats": Draw((1, 4, 16))}
                   | {"visual_pos": Draw((1, 4, 4))}),
    },
    "time series": {
        "patchtst": ("PatchTSTModel", {"num_input_channels": 2, "context_length": 32}
                     | {"patch_length": 4, "patch_stride": 4, "d_model": 16, "ffn_dim": 32}
                     | {"num_hidden_layers": 2, "num_attention_heads": 2},
                     {"past_values": Draw((BATCH, 32, 2))}),
        "patchtsmixer": ("PatchTSMixerModel", {"num_input_channels": 2, "context_length": 32}
                         | {"patch_length": 4, "patch_stride": 4, "d_model": 8, "num_layers": 2},
                         {"past_values": Draw((BATCH, 32, 2))}),
        "time_series_transformer": ("TimeSeriesTransformerModel", _SERIES, _PAST),
        "informer": ("InformerModel", _SERIES, _PAST),
        "autoformer": ("AutoformerModel", _SERIES | {"label_length": 4}, _PAST),
        "decision_transformer": ("DecisionTransformerModel", {
            "state_dim": 5, "act_dim": 3, "hidden_size": 32, "n_layer": 2, "n_head": 4,
            "max_ep_len": 32, "n_positions": 64, "vocab_size": 1,
        }, {"states": Draw((1, 6, 5)), "actions": Draw((1, 6, 3)), "rewards": Draw((1, 6, 1)),
            "returns_to_go": Draw((1, 6, 1)), "timesteps": Draw((1, 6), 32),
            "attention_mask": Draw((1, 6), 2)}),
    },
}  # fmt: skip
"""Family -> name -> (class, configuration, inputs by name)."""
